#include "models/team.h"

#include <string>
#include <system_error>
#include <utility>

#include "thinwire/error.h"

namespace thinwire {

Team::Team(std::size_t members)
    : members_(members),
      failures_(members),
      begin_(static_cast<std::ptrdiff_t>(members)),
      end_(static_cast<std::ptrdiff_t>(members)) {
  try {
    threads_.reserve(members_ - 1);
    while (threads_.size() + 1 < members_) {
      threads_.emplace_back([this, member = threads_.size() + 1] { work(member); });
    }
  } catch (const std::system_error& error) {
    // Those who wait already are let go; the destructor will not run.
    for (std::size_t member = threads_.size() + 1; member < members_; ++member) {
      begin_.arrive_and_drop();
    }
    break_up();
    throw Error("cannot start " + std::to_string(members_) + " math threads: " + error.what() +
                "; take fewer");
  }
}

Team::~Team() {
  if (members_ > 1) break_up();
}

void Team::break_up() {
  task_ = nullptr;
  begin_.arrive_and_wait();
}

void Team::run(std::size_t count, const Task& task) {
  if (members_ == 1) {
    for (std::size_t index = 0; index < count; ++index) task(index);
    return;
  }
  task_ = &task;
  count_ = count;
  begin_.arrive_and_wait();
  do_tasks(0);
  end_.arrive_and_wait();
  for (std::exception_ptr& failure : failures_) {
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }
}

void Team::do_tasks(std::size_t member) noexcept {
  try {
    for (std::size_t index = member; index < count_; index += members_) (*task_)(index);
  } catch (...) {
    failures_[member] = std::current_exception();
  }
}

void Team::work(std::size_t member) {
  for (;;) {
    begin_.arrive_and_wait();
    if (task_ == nullptr) return;
    do_tasks(member);
    end_.arrive_and_wait();
  }
}

}  // namespace thinwire
