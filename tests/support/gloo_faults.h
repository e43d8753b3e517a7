// A rank of a near link between processes is killed or frozen in the middle of an operation.
#pragma once

#include <string>
#include <vector>

namespace thinwire::test {

struct GlooFault {
  int ranks = 4;
  int victim = 1;  // odd: those left open a group of the even ranks afterwards
  int signal = 9;  // SIGKILL or SIGSTOP
  std::string operation = "all_reduce_mean";
  std::size_t floats = 4'000'000;
  int deadline_ms = 3'000;
};

struct GlooReport {
  int rank = 0;
  double after_s = -1.0;  // from the signal; negative: it said nothing
  std::string text;
  std::string again;  // what the new group's mean was; empty for odd ranks
  int code = -1;      // exit code
};

// The reports of all ranks but the victim.
std::vector<GlooReport> play_gloo_fault(const GlooFault& fault);

// What is wrong with them; empty when every rank named victim and operation in time and went on.
std::string judge(const GlooFault& fault, const std::vector<GlooReport>& reports);

}  // namespace thinwire::test
