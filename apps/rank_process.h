// One rank that `thinwire launch` has started, or one run of a plan: its process, in a group of its
// own, and what it prints. It does not outlive this process. Internal to launch and plans.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace thinwire::app {

class RankProcess {
 public:
  // Throws UsageError when there is no such program. What it prints goes to our own standard output
  // and standard error, each line with the rank before it; or, as it is, to the end of `kept`,
  // which then outlives this object.
  RankProcess(int rank, const std::vector<std::string>& words,
              const std::vector<std::string>& environment, std::string* kept = nullptr);
  ~RankProcess();  // ended with all that it started
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  int rank() const { return rank_; }
  // Files to poll; -1 once the rank has closed them.
  int out() const { return out_.file; }
  int err() const { return err_.file; }
  // Passes on what is there, whole lines with the rank before them.
  void pass_on();
  void signal(int number) const;  // to its whole group
  // Exit code, 128 + N for an end by signal N; none while it runs.
  std::optional<int> ended();
  bool by_signal() const { return by_signal_; }

 private:
  struct Stream {
    int file = -1;
    int to = 1;
    std::string line = {};
  };
  void pass_on(Stream& stream, bool at_end);

  const int rank_;
  std::string* const kept_;
  pid_t process_ = -1;
  Stream out_{-1, 1};
  Stream err_{-1, 2};
  std::optional<int> code_;
  bool by_signal_ = false;
};

}  // namespace thinwire::app
