// A saved run that goes on with fewer or more sites, with every method that keeps something of its
// own: nobody's memory of gradients turns into what no gradient can make.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/saved_run.h"
#include "tests/support/temporary_directory.h"

namespace thinwire::test {
namespace {

class FewerSites : public testing::TestWithParam<std::string> {};

TEST_P(FewerSites, GoOnAndSoDoMore) {
  const TemporaryDirectory dir;
  SavedRun saved{.sites = 3, .method = GetParam(), .dir = dir.path()};
  saved.train(0, 6, 6);
  const FoundCheckpoint found = newest_checkpoint(dir.path());
  ASSERT_TRUE(found.checkpoint);
  for (const int sites : {2, 4}) {
    SavedRun next = saved;
    next.sites = sites;
    SiteRunOptions run = next.options(6, 16);
    run.start = [&](Shard& shard, Optimizer& optimizer, int site) {
      const Progress progress = found.checkpoint->load(
          {.site = site, .saved_sites = sites, .sites = sites}, shard, optimizer);
      for (const StateSpec& spec : shard.states()) {
        if (spec.name != "v") continue;
        for (const float value : shard.state("v")) EXPECT_GE(value, 0.0f);
      }
      return progress;
    };
    run.at_end = [](Trainer& trainer, int, int) {
      for (const StateSpec& spec : trainer.shard().states()) {
        const ConstFloats state = trainer.shard().state(spec.name);
        EXPECT_TRUE(std::ranges::all_of(state, [](float v) { return std::isfinite(v); }))
            << spec.name;
      }
    };
    for (const RankOutcome& outcome : run_sites(run)) EXPECT_EQ(outcome.skipped, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, FewerSites,
                         testing::Values("mural", "mural:delay=1", "demo:signal=adamw",
                                         "diloco:h=2", "muloco:h=2", "sparseloco:h=4:delay=2",
                                         "streaming_diloco:h=4:delay=3", "mural_local:h=4:delay=2",
                                         "signum", "topk", "powersgd", "onebit_adam:warmup=3"));

}  // namespace
}  // namespace thinwire::test
