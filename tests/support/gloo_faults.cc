#include "tests/support/gloo_faults.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "tests/support/child.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;

constexpr double kPatience = 30.0;  // s; of anything that takes less than one

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

GlooReport report_of(int rank, const std::string& said, double at, std::optional<int> code) {
  GlooReport report{.rank = rank, .text = "", .again = ""};
  report.code = code.value_or(-1);
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("failed at ")) {
      report.after_s = std::stod(line.substr(10)) - at;
      report.text = line.substr(line.find(": ") + 2);
    }
    if (line.starts_with("again ")) report.again = line.substr(6);
    if (line.starts_with("gave up: ")) report.again = line;
  }
  return report;
}

}  // namespace

std::vector<GlooReport> play_gloo_fault(const GlooFault& fault) {
  std::string pattern = (fs::temp_directory_path() / "thinwire_fault_XXXXXX").string();
  const fs::path dir = ::mkdtemp(pattern.data());
  const auto output = [&](int rank) { return dir / ("said." + std::to_string(rank)); };
  std::vector<std::unique_ptr<Child>> ranks;
  for (int rank = 0; rank < fault.ranks; ++rank) {
    ranks.push_back(std::make_unique<Child>(
        ChildOptions{.words = {GLOO_RANK_PROGRAM, (dir / "meet").string(), std::to_string(rank),
                               std::to_string(fault.ranks), std::to_string(fault.deadline_ms),
                               fault.operation, std::to_string(fault.floats)},
                     .output = output(rank).string()}));
  }
  wait_until(kPatience, [&] {
    for (int rank = 0; rank < fault.ranks; ++rank) {
      if (read(output(rank)).find("ready") == std::string::npos) return false;
    }
    return true;
  });
  pause_ms(100);  // in the middle of one
  const double at = monotonic_s();
  ranks[fault.victim]->signal(fault.signal);
  std::vector<GlooReport> reports;
  for (int rank = 0; rank < fault.ranks; ++rank) {
    if (rank == fault.victim) continue;
    const std::optional<int> code = ranks[rank]->wait(kPatience);
    reports.push_back(report_of(rank, read(output(rank)), at, code));
  }
  ranks.clear();
  fs::remove_all(dir);
  return reports;
}

std::string judge(const GlooFault& fault, const std::vector<GlooReport>& reports) {
  double mean = 0.0;
  int even = 0;
  for (int rank = 0; rank < fault.ranks; rank += 2, ++even) mean += rank;
  std::ostringstream again;
  again << mean / even;
  const double most = fault.deadline_ms * 1e-3 + 0.5;
  std::ostringstream wrong;
  for (const GlooReport& report : reports) {
    const bool named =
        report.text.find("rank " + std::to_string(fault.victim) + " ") != std::string::npos;
    const bool phase = report.text.find(fault.operation) != std::string::npos;
    const bool in_time = report.after_s >= 0.0 && report.after_s <= most;
    const bool went_on = report.rank % 2 != 0 || report.again == again.str();
    if (named && phase && in_time && went_on && report.code == 0) continue;
    wrong << "rank " << report.rank << " ended with " << report.code << " after " << report.after_s
          << " s: '" << report.text << "', again '" << report.again << "'\n";
  }
  return wrong.str();
}

}  // namespace thinwire::test
