#include "apps/plan_verdicts.h"

#include <fmt/format.h>

#include <cmath>

namespace thinwire::app {
namespace {

const PlanRow* find(const PlanSizeResult& size, const std::string& label) {
  for (const PlanRow& row : size.rows) {
    if (row.method.method == label) return &row;
  }
  return nullptr;
}

class Judge {
 public:
  Judge(const Expectation& expected, const PlanSizeResult& size) : expected_(expected) {
    verdict_.name = expected.name;
    if (expected.size.empty()) verdict_.name += " at size " + size.name;
    verdict_.holds = true;
    a_ = find(size, expected.a);
    if (!expected.b.empty()) b_ = find(size, expected.b);
  }

  Verdict verdict() {
    if (a_ == nullptr || (!expected_.b.empty() && b_ == nullptr)) {
      say(false, (a_ == nullptr ? expected_.a : expected_.b) + " was left out");
      return verdict_;
    }
    for (const PlanRow* row : {a_, b_}) {
      if (row == nullptr || row->status == CellStatus::trained) continue;
      say(false, row->method.method + " " + to_string(row->status) + " (" + row->reason + ")");
    }
    if (!verdict_.holds) return verdict_;
    judge_gap();
    judge_loss();
    judge_hashes();
    return verdict_;
  }

 private:
  void say(bool holds, const std::string& what) {
    verdict_.holds = verdict_.holds && holds;
    verdict_.detail += (verdict_.detail.empty() ? "" : "; ") + what;
  }

  void judge_gap() {
    if (!expected_.max_gap && !expected_.min_gap) return;
    std::vector<double> a, b;
    for (std::size_t i = 0; i < a_->losses.size(); ++i) {
      if (!std::isfinite(a_->losses[i]) || !std::isfinite(b_->losses[i])) continue;
      a.push_back(a_->losses[i]);
      b.push_back(b_->losses[i]);
    }
    const double gap = paired_difference(a, b).mean;
    // A gap that is not a number is neither.
    if (expected_.max_gap) {
      say(gap <= *expected_.max_gap,
          fmt::format("gap {:+.4f}, at most {:+g} expected", gap, *expected_.max_gap));
    }
    if (expected_.min_gap) {
      say(gap >= *expected_.min_gap,
          fmt::format("gap {:+.4f}, at least {:+g} expected", gap, *expected_.min_gap));
    }
  }

  void judge_loss() {
    const double loss = a_->method.loss;
    if (expected_.max_loss) {
      say(loss <= *expected_.max_loss,
          fmt::format("loss {:.4f}, at most {:g} expected", loss, *expected_.max_loss));
    }
    if (expected_.min_loss) {
      say(loss >= *expected_.min_loss,
          fmt::format("loss {:.4f}, at least {:g} expected", loss, *expected_.min_loss));
    }
    if (!expected_.max_bytes_up) return;
    const double bytes = a_->method.bytes_up;
    say(bytes <= *expected_.max_bytes_up,
        fmt::format("{:.1f} bytes up a step, at most {:g} expected", bytes,
                    *expected_.max_bytes_up));
  }

  void judge_hashes() {
    const auto& seeds = a_->method.seeds;
    if (!expected_.hash.empty()) {
      say(seeds.front().hash == expected_.hash,
          fmt::format("hash {}, {} expected", seeds.front().hash, expected_.hash));
    }
    if (!expected_.same_hash) return;
    const auto& others = b_->method.seeds;
    bool same = seeds.size() == others.size();
    for (std::size_t i = 0; same && i < seeds.size(); ++i) same = seeds[i].hash == others[i].hash;
    say(same, same ? "equal hashes" : "the hashes differ, equal ones expected");
  }

  const Expectation& expected_;
  const PlanRow* a_ = nullptr;
  const PlanRow* b_ = nullptr;
  Verdict verdict_;
};

}  // namespace

std::vector<Verdict> judge(const Plan& plan, const PlanResult& result) {
  std::vector<Verdict> all;
  for (const Expectation& expected : plan.expectations) {
    for (const PlanSizeResult& size : result.sizes) {
      if (expected.size.empty() || expected.size == size.name) {
        all.push_back(Judge(expected, size).verdict());
      }
    }
  }
  return all;
}

}  // namespace thinwire::app
