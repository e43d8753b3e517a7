// What audited_site printed, and the audit of a run across its sites. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace thinwire::test {

struct LoggedStep {
  double loss = 0.0;  // NaN for a step that was caught up with
  std::uint64_t state = 0;
  double at_s = 0.0;  // steady clock

  bool operator==(const LoggedStep&) const = default;
};

// One process of a site.
class SiteLog {
 public:
  explicit SiteLog(std::string path) : path_(std::move(path)) {}

  void update();  // reads the whole lines that have come since

  std::string name;  // for messages
  int number = -1;   // -1: the run has not begun for it
  std::map<std::uint64_t, std::set<std::uint64_t>> said;
  std::map<std::uint64_t, std::map<int, std::uint64_t>> heard;
  std::set<std::uint64_t> unheard;
  std::set<std::uint64_t> owed;  // said and not heard of yet; a state that is taken over owes none
  std::set<std::uint64_t> taken_over;  // steps before which it took over the state of the others
  std::map<std::uint64_t, LoggedStep> steps;
  std::set<std::uint64_t> missed;
  std::map<std::uint64_t, std::set<int>> diverged;
  std::optional<std::uint64_t> flipped;
  std::optional<std::uint64_t> end;
  std::vector<std::string> faults;  // lines that contradict earlier ones

  std::uint64_t steps_done() const { return steps.empty() ? 0 : steps.rbegin()->first + 1; }

 private:
  void take(const std::string& line);
  void take_over(std::uint64_t step);
  template <class Value>
  void put(std::map<std::uint64_t, Value>& map, std::uint64_t key, const Value& value,
           const char* what);

  std::string path_;
  std::streamoff read_ = 0;
};

// Every way in which these processes contradict what a run promises; empty is good:
//   a round is the same for all who heard it; rounds follow one another without a gap, and so do
//   steps, unless the state of the others was taken over there; the state after a step is the same
//   for all; what was heard of a site is what it said in that round and in no other; what a closed
//   round lacks its sender takes back, once, and only that.
// So the sum of all that was applied is the sum of what was said less what was taken back.
std::vector<std::string> audit(const std::vector<SiteLog>& logs);

}  // namespace thinwire::test
