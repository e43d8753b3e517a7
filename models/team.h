// Threads that share one kind of work: a fixed number of tasks, dealt out the same way every time.
// With one member there is no thread and no cost. run() is for the owner's thread only.
#pragma once

#include <barrier>
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace thinwire {

class Team {
 public:
  using Task = std::function<void(std::size_t)>;

  explicit Team(std::size_t members);  // throws Error when threads cannot be started
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Calls task(0) .. task(count - 1) and returns when all are done; member m does m, m + members,
  // ... The caller is member 0. What a task throws is thrown here, once all have
  // stopped; of the first member where several fail.
  void run(std::size_t count, const Task& task);

 private:
  void work(std::size_t member);
  void do_tasks(std::size_t member) noexcept;
  void break_up();

  const std::size_t members_;
  const Task* task_ = nullptr;  // null: the team breaks up. Handed over by begin_, as is count_.
  std::size_t count_ = 0;
  std::vector<std::exception_ptr> failures_;  // by member, each written by itself
  std::barrier<> begin_;
  std::barrier<> end_;
  std::vector<std::jthread> threads_;  // members 1, 2, ...
};

}  // namespace thinwire
