#include "models/team.h"

namespace thinwire {

Team::Team(std::size_t members)
    : members_(members),
      begin_(static_cast<std::ptrdiff_t>(members)),
      end_(static_cast<std::ptrdiff_t>(members)) {
  for (std::size_t member = 1; member < members_; ++member) {
    threads_.emplace_back([this, member] { work(member); });
  }
}

Team::~Team() {
  if (members_ == 1) return;
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
  for (std::size_t index = 0; index < count; index += members_) task(index);
  end_.arrive_and_wait();
}

void Team::work(std::size_t member) {
  for (;;) {
    begin_.arrive_and_wait();
    if (task_ == nullptr) return;
    for (std::size_t index = member; index < count_; index += members_) (*task_)(index);
    end_.arrive_and_wait();
  }
}

}  // namespace thinwire
