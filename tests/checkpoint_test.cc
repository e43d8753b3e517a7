// Checkpoints of real runs over loopback: going on from them, what is wrong with damaged ones, and
// what is kept. Every method's round trip is in optimizer_suite_test.
#include "thinwire/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "optimizers/catalog.h"
#include "src/core/checkpoint_manifest.h"
#include "src/core/checkpoint_tensors.h"
#include "tests/support/saved_run.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/whole_matrices.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;

class CheckpointDir : public testing::Test {
 protected:
  const fs::path& dir() const { return temporary_.path(); }
  SavedRun run(int sites, int ranks, const std::string& method = "distro:delay=1") const {
    return SavedRun{.sites = sites, .ranks = ranks, .method = method, .dir = dir()};
  }
  fs::path step(std::uint64_t number) const {
    const std::string digits = std::to_string(number);
    return dir() / ("step-" + std::string(10 - digits.size(), '0') + digits);
  }
  std::string why_not(const fs::path& path) const {
    const Result<Checkpoint> opened = Checkpoint::open(path);
    return opened ? "" : opened.why();
  }

 private:
  TemporaryDirectory temporary_;
};

TEST_F(CheckpointDir, AreReadForAnyNumberOfRanks) {
  const std::uint64_t whole = run(2, 4).train(0, 12);
  run(2, 4).train(0, 6, 6);
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(found.checkpoint->step(), 6u);
  const std::uint64_t at_six = run(2, 4).train(0, 6);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    SavedRun other = run(2, ranks);
    other.checkpoint = &*found.checkpoint;
    EXPECT_EQ(other.train(6, 6), at_six) << ranks << " ranks: the replicated state";
    EXPECT_EQ(other.train(6, 12), whole) << ranks << " ranks: residuals and what is in flight";
  }
}

TEST_F(CheckpointDir, OfWholeMatricesGoOnWithAnyNumberOfRanks) {
  const auto normalised = [this](int ranks, bool whole = true) {
    SavedRun one = run(2, ranks);
    one.inside.reduce = NearType::bf16;  // the mean of any few equal ones is exact
    one.other = [whole] {
      return std::make_unique<Normalised>(Normalised::Options{.delay = 1, .whole = whole});
    };
    return one;
  };
  const std::uint64_t whole = normalised(1).train(0, 12);
  normalised(2).train(0, 6, 6);
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  const auto manifest = nlohmann::json::parse(content_of(step(6) / kManifestName));
  EXPECT_EQ(manifest.at("whole_blocks"), true);
  for (const int ranks : {1, 2, 3, 8}) {
    SavedRun other = normalised(ranks);
    other.checkpoint = &*found.checkpoint;
    EXPECT_EQ(other.train(6, 12), whole) << ranks << " ranks";
  }
  SavedRun rows = normalised(1, false);  // which one rank cannot tell
  rows.checkpoint = &*found.checkpoint;
  EXPECT_EQ(rows.train(6, 12), whole);
}

// Says one value for the whole shard, a step before it is heard.
class OneValue final : public Optimizer {
 public:
  std::string_view name() const override { return "one_value"; }
  Traits traits() const override { return {.delay = 1}; }
  Update extract(const Step&, Shard& shard) override { return {.dense = {shard.grad()[0]}}; }
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override {
    for (const Contribution& one : heard) {
      for (float& value : shard.params()) value -= step.lr * one.update.dense.at(0);
    }
    return {};
  }
};

TEST_F(CheckpointDir, WithUpdatesThatCannotBeCutAnewNeedTheSameRanks) {
  SavedRun two = run(2, 2);
  two.other = [] { return std::make_unique<OneValue>(); };
  const std::uint64_t whole = two.train(0, 12);
  two.train(0, 6, 6);
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  two.checkpoint = &*found.checkpoint;
  EXPECT_EQ(two.train(6, 12), whole);
  two.ranks = 3;
  EXPECT_THROW(two.train(6, 12), UsageError);
}

// What is cut between rows of tiles, of many ranks, is read by parts of whole blocks.
TEST_F(CheckpointDir, OfRowsOfTilesAreReadInWholeBlocks) {
  const std::uint64_t whole = run(2, 4).train(0, 7);
  run(2, 4).train(0, 7, 7);
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  EXPECT_FALSE(nlohmann::json::parse(content_of(step(7) / kManifestName)).contains("whole_blocks"));
  const auto method = run(2, 4).make();
  const std::vector<StateSpec> states = method->traits().states;
  Shard all(found.checkpoint->layout(), 0, 1, states);
  found.checkpoint->load({.site = 1, .saved_sites = 2, .sites = 2}, all, *method);
  ASSERT_NE(whole, 0u);
  std::vector<std::uint64_t> rows(all.layout().tile_rows().size(), 0);
  for (int rank = 0; rank < 3; ++rank) {
    Shard part(found.checkpoint->layout(), rank, 3, states, true);
    const Progress progress =
        found.checkpoint->load({.site = 1, .saved_sites = 2, .sites = 2}, part, *method);
    EXPECT_EQ(progress.in_flight.at(0).update.picks.counts.size(), part.tiles().size());
    const std::vector<std::uint64_t> mine = row_hashes(part);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] |= mine[i];
  }
  EXPECT_EQ(rows, row_hashes(all));
}

TEST_F(CheckpointDir, FoldResidualsOfSitesThatAreGone) {
  run(4, 2, "distro").train(0, 5, 5);
  const FoundCheckpoint found = newest_checkpoint(dir());
  const std::vector<double> before = run(4, 2, "distro").residuals(&*found.checkpoint);
  ASSERT_EQ(before.size(), 4u);
  const double mean = (before[0] + before[1] + before[2] + before[3]) / 4;
  const double scale = std::abs(mean) + 1.0;
  for (const int sites : {1, 2, 3, 6}) {
    const std::vector<double> after = run(sites, 1, "distro").residuals(&*found.checkpoint);
    double sum = 0.0;
    for (const double one : after) sum += one;
    EXPECT_NEAR(sum / sites, sites > 4 ? (4 * mean + (sites - 4) * mean) / sites : mean,
                1e-4 * scale)
        << sites << " sites: the mean of what is owed stays";
  }
  SavedRun dropping = run(2, 1, "distro");
  dropping.residuals_rule = Residuals::drop;
  const std::vector<double> dropped = dropping.residuals(&*found.checkpoint);
  EXPECT_EQ(dropped[0], before[0]);
  EXPECT_EQ(dropped[1], before[1]);
}

TEST_F(CheckpointDir, TakeBackWhatWasInFlightBetweenOtherSites) {
  run(3, 2, "distro:delay=2").train(0, 7, 7);
  const FoundCheckpoint found = newest_checkpoint(dir());
  SavedRun fewer = run(2, 1, "distro:delay=2");
  fewer.checkpoint = &*found.checkpoint;
  EXPECT_NE(fewer.train(7, 20), 0u) << "goes on, and replicas stay equal";
}

TEST_F(CheckpointDir, SayWhatIsWrongWithThem) {
  run(1, 2, "adamw").train(0, 3, 3);
  const std::string name = "site-0.rank-1.safetensors";
  const fs::path file = step(3) / name;
  const std::string whole = content_of(file);
  const std::string size = std::to_string(whole.size());
  const auto damaged = [&](const std::string& content) {
    put(file, content);
    std::string why = why_not(step(3));
    EXPECT_NE(why.find(name), std::string::npos) << why;
    return why;
  };
  const auto says = [](const std::string& why, const std::vector<std::string>& words) {
    for (const std::string& word : words) EXPECT_NE(why.find(word), std::string::npos) << why;
  };
  says(damaged(""), {"at least 8 bytes expected, 0 found"});
  says(damaged(whole.substr(0, 100)), {"cut short in its header", "100 found"});
  says(damaged(whole.substr(0, whole.size() / 2)),
       {"cut short in its data", size + " bytes expected"});
  says(damaged(whole.substr(0, whole.size() - 1)),
       {size, std::to_string(whole.size() - 1) + " found"});
  says(damaged(whole + "x"), {"too long", size, std::to_string(whole.size() + 1) + " found"});
  std::string flipped = whole;
  flipped[whole.size() - 100] ^= 4;
  says(damaged(flipped), {"tensor states/", "checksum", "expected", "found"});
  flipped = whole;
  flipped[20] ^= 1;
  EXPECT_NE(damaged(flipped), "");
  put(file, whole);
  EXPECT_EQ(why_not(step(3)), "");
  fs::remove(file);
  says(why_not(step(3)), {name, "missing"});
}

TEST_F(CheckpointDir, EveryFlippedBitOfAManifestAndEveryCutIsNoticed) {
  run(1, 1, "sgd").train(0, 2, 2);
  const fs::path file = step(2) / kManifestName;
  const std::string whole = content_of(file);
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string flipped = whole;
    flipped[at] ^= static_cast<char>(1 << (at % 7));
    put(file, flipped);
    const Result<Checkpoint> opened = Checkpoint::open(step(2));
    // Blanks between words say nothing.
    if (!opened) continue;
    EXPECT_EQ(nlohmann::json::parse(flipped), nlohmann::json::parse(whole)) << at;
  }
  for (std::size_t size = 0; size + 2 < whole.size(); size += 11) {
    put(file, whole.substr(0, size));
    EXPECT_NE(why_not(step(2)), "") << size;
  }
}

TEST_F(CheckpointDir, OfANewerFormatOrWithOtherKeysAreRefusedByName) {
  run(1, 1, "sgd").train(0, 2, 2);
  const fs::path file = step(2) / kManifestName;
  const auto whole = nlohmann::json::parse(content_of(file));
  auto newer = whole;
  newer["version"] = 2;
  put(file, newer.dump());
  EXPECT_NE(why_not(step(2)).find("newer thinwire: format 2"), std::string::npos);
  auto missing = whole;
  missing.erase("sites");
  put(file, missing.dump());
  EXPECT_NE(why_not(step(2)).find("'sites' is missing"), std::string::npos);
  auto unknown = whole;
  unknown["more"] = 1;
  put(file, unknown.dump());
  EXPECT_NE(why_not(step(2)).find("'more' is unknown"), std::string::npos);
}

TEST_F(CheckpointDir, TheNewestValidOneIsTakenAndTheOthersAreNamed) {
  SavedRun saved = run(1, 1, "adamw");
  saved.train(0, 6, 2);
  ASSERT_EQ(list_checkpoints(dir()).size(), 3u);
  const fs::path file = step(6) / "site-0.rank-0.safetensors";
  put(file, content_of(file).substr(0, 1000));
  fs::create_directory(dir() / "step-0000000099.partial");
  fs::create_directory(dir() / "step-what");
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(found.checkpoint->step(), 4u);
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_NE(found.skipped[0].find("step-0000000006"), std::string::npos) << found.skipped[0];
}

TEST_F(CheckpointDir, TheLastOnesAndEveryNthAreKept) {
  SavedRun saved = run(1, 1, "sgd");
  saved.keep_last = 2;
  saved.keep_every = 4;
  saved.train(0, 11, 1);
  std::vector<std::string> names;
  for (const fs::path& path : list_checkpoints(dir())) names.push_back(path.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"step-0000000011", "step-0000000010",
                                             "step-0000000008", "step-0000000004"}));
}

TEST_F(CheckpointDir, OfAnotherModelOrOptimizerAreRefusedByName) {
  run(1, 1, "adamw").train(0, 2, 2);
  const FoundCheckpoint found = newest_checkpoint(dir());
  const auto refusal = [&](SavedRun other) {
    other.checkpoint = &*found.checkpoint;
    try {
      other.train(2, 3);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  SavedRun other = run(1, 1, "adamw");
  other.parameters = awkward_parameters();
  other.parameters[1].shape = {71};
  EXPECT_NE(refusal(other).find("parameter 1 is 'bias' [70] of unit 0 there and 'bias' [71]"),
            std::string::npos)
      << refusal(other);
  EXPECT_NE(refusal(run(1, 1, "distro")).find("its states are m v t"), std::string::npos);
}

TEST_F(CheckpointDir, ADirectoryIsHeldByOneRun) {
  CheckpointWriter first({.dir = dir()});
  try {
    CheckpointWriter second({.dir = dir()});
    FAIL() << "two runs save into one directory";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("another run saves into"), std::string::npos);
  }
}

TEST_F(CheckpointDir, OnlyItsOwnUnfinishedOnesAreCleared) {
  fs::create_directory(dir() / "step-0000000007.partial");
  put(dir() / "film.partial", "half a film of somebody else");
  const CheckpointWriter writer({.dir = dir()});
  EXPECT_FALSE(fs::exists(dir() / "step-0000000007.partial"));
  EXPECT_TRUE(fs::exists(dir() / "film.partial"));
}

TEST_F(CheckpointDir, NobodyWaitsForASeatThatHasGivenUp) {
  const SavedRun one = run(2, 1, "sgd");
  CheckpointWriter writer({.dir = dir(), .sites = 2, .saved_sites = 2});
  SiteRunOptions options = one.options(0, 1);
  options.at_end = [&](Trainer& trainer, int site, int) {
    if (site > 0) return;
    EXPECT_TRUE(writer.save({}, trainer));
    writer.give_up();
    EXPECT_FALSE(writer.save({}, trainer)) << "the other site never gave its part";
  };
  run_sites(options);
  writer.flush();
  EXPECT_FALSE(writer.published());
}

// Two processes of a rank each, on a disk that takes nothing more from the second.
TEST_F(CheckpointDir, ARankThatCannotWriteIsNotWaitedFor) {
  const SavedRun both = run(1, 2, "adamw");
  CheckpointWriter first({.dir = dir(), .ranks = 2});
  CheckpointWriter second({.dir = dir(), .ranks = 2, .first_rank = 1});
  fs::create_directories(step(1).string() + ".partial/site-0.rank-1.safetensors.tmp");
  SiteRunOptions options = both.options(0, 1);
  options.at_end = [&](Trainer& trainer, int site, int rank) {
    (rank == 0 ? first : second).save({site, rank}, trainer);
  };
  const auto begin = std::chrono::steady_clock::now();
  run_sites(options);
  EXPECT_THROW(second.flush(), Error);
  try {
    first.flush();
    FAIL() << "a checkpoint without a part";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank-1.safetensors: its process could not write"),
              std::string::npos)
        << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(list_checkpoints(dir()).empty());
}

TEST_F(CheckpointDir, AManifestNestedWithoutEndIsRefused) {
  run(1, 1, "sgd").train(0, 2, 2);
  const fs::path file = step(2) / kManifestName;
  auto whole = nlohmann::json::parse(content_of(file));
  whole.erase("run");
  std::string deep = whole.dump();
  deep.back() = ',';
  put(file, deep + "\"run\":" + std::string(300'000, '[') + std::string(300'000, ']') + "}");
  EXPECT_NE(why_not(step(2)).find("nested too deep"), std::string::npos);
}

TEST_F(CheckpointDir, KnowWhatTheGuardTookForUsual) {
  const SavedRun one = run(1, 1, "sgd");
  SiteRunOptions options = one.options(0, 30);
  options.guard.spike = 100.0f;
  CheckpointWriter writer({.dir = dir()});
  Progress saved;
  options.at_end = [&](Trainer& trainer, int, int) {
    saved = *trainer.progress();
    writer.save({}, trainer);
  };
  run_sites(options);
  writer.flush();
  EXPECT_EQ(saved.guard.seen, 30);
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  options.start = [&](Shard& shard, Optimizer& optimizer, int) {
    const Progress progress = found.checkpoint->load({}, shard, optimizer);
    EXPECT_EQ(progress.guard, saved.guard);
    return progress;
  };
  options.at_end = {};
  run_sites(options);
}

TEST_F(CheckpointDir, AFileInTheWayIsNamed) {
  put(dir() / "file", "x");
  EXPECT_THROW(CheckpointWriter({.dir = dir() / "file"}), UsageError);
}

TEST_F(CheckpointDir, HoldFrozenAndEmptyParametersToo) {
  run(1, 3, "adamw").train(0, 2, 2);
  const FoundCheckpoint found = newest_checkpoint(dir());
  const ToyModel model({});
  for (std::size_t i = 0; i < awkward_parameters().size(); ++i) {
    const ParameterSpec spec = awkward_parameters()[i];
    const std::vector<float> values = found.checkpoint->parameter(spec.name);
    std::vector<float> first(values.size());
    model.initialize(i, 1, first);
    EXPECT_EQ(spec.name == "frozen" || spec.name == "empty", values == first) << spec.name;
  }
}

TEST_F(CheckpointDir, ThatCannotBeWrittenLeaveTheOlderOnes) {
  SavedRun saved = run(1, 1, "adamw");
  saved.train(0, 2, 2);
  // Something that cannot be replaced lies where the next one is written.
  fs::create_directories(step(3).string() + ".partial");
  SavedRun next = saved;
  next.before_save = [&] { put(step(3).string() + ".partial", ""); };
  EXPECT_THROW(next.train(0, 3, 3), std::exception);
  const FoundCheckpoint found = newest_checkpoint(dir());
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(found.checkpoint->step(), 2u);
}

TEST(Difference, NamesTheFirstSettingThatDiffers) {
  EXPECT_EQ(difference({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "2"}}), "");
  EXPECT_EQ(difference({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"b", "3"}}),
            "b is 2 there and 3 here");
  EXPECT_EQ(difference({{"a", "1"}}, {}), "a is 1 there and missing here");
}

}  // namespace
}  // namespace thinwire::test
