// `thinwire train --save`, `inspect` and `export` as a user meets them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/core/checkpoint_tensors.h"
#include "tests/support/cli_far_fixture.h"
#include "thinwire/checkpoint_writer.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;

class CliSave : public CliFar {
 protected:
  Words saving(const std::string& dir, const Words& more = {}) const {
    Words words{"--out", "report", "--save", dir, "--save-every", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string hash(const std::string& method, const Words& more) const {
    return hash_of(run(train(method, more)));
  }
  std::set<std::string> steps_in(const std::string& dir) const {
    std::set<std::string> names = names_in(dir);
    names.erase("lock");
    std::erase_if(names, [](const std::string& name) { return name.ends_with(".partial"); });
    return names;
  }
  void wait_for_checkpoint(const std::string& dir) const {
    for (int i = 0; i < 1000 && steps_in(dir).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // A disk of its own; false: only root may mount one.
  bool mount_disk(const char* options, unsigned long flags = 0) const {
    fs::create_directory(path("disk"));
    return ::mount("tmpfs", path("disk").c_str(), "tmpfs", flags, options) == 0;
  }
};

TEST_F(CliSave, TwoHalvesOfARunAreOneRun) {
  for (const std::string method : {"distro:delay=1", "adamw"}) {
    const std::string whole = hash(method, {"--out", "report"});
    hash(method, saving(method, {"--until", "5"}));
    EXPECT_EQ(steps_in(method), (std::set<std::string>{"step-0000000003", "step-0000000005"}));
    EXPECT_EQ(hash(method, saving(method, {"--resume"})), whole) << method;
  }
}

TEST_F(CliSave, AStopSavesTheStepItCameTo) {
  Launch launch = this->launch(train("distro", saving("saved", {"--steps", "100000"})));
  launch.signal_when = "%";
  launch.then = [&] { wait_for_checkpoint("saved"); };
  launch.signal = SIGTERM;
  const Outcome outcome = run_program(launch);
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_LT(outcome.after_s, 5.0);
  EXPECT_NE(outcome.err.find("stopped; saved at step "), std::string::npos) << outcome.err;
  const Words more{"--steps", "100000", "--resume", "--until", "1"};
  const Outcome on = run(train("distro", saving("saved", more)));
  EXPECT_EQ(on.code, 2) << on.err;
  EXPECT_NE(on.err.find("--until 1 is behind step "), std::string::npos) << on.err;
}

TEST_F(CliSave, WhatMakesNoSenseIsRefused) {
  const Words out{"--out", "out"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), out.begin(), out.end());
    return train("distro", words);
  };
  expect_usage_error(with({"--resume"}), "--resume needs --save");
  expect_usage_error(with({"--save-every", "2"}), "--save-every needs --save");
  expect_usage_error(with({"--save", "s", "--seeds", "2"}), "leave --seeds away");
  expect_usage_error(with({"--save", "s", "--keep", "0"}), "--keep must be 1 or more");
  expect_usage_error(with({"--save", "s", "--residuals", "burn"}), "fold or drop");
  expect_usage_error(with({"--save", "text"}), "text");
  expect_usage_error(with({"--until", "13"}), "--until 13 is beyond the last step, 12");
  expect_usage_error({"inspect", "nowhere"}, "there is no directory nowhere");
  expect_usage_error({"inspect", "."}, "holds no checkpoint");
}

TEST_F(CliSave, AnotherRunsDirectoryIsLeftAlone) {
  hash("distro", saving("saved"));
  const std::set<std::string> before = steps_in("saved");
  const auto refusal = [&](const std::string& method, const Words& more) {
    const Outcome outcome = run(train(method, saving("saved", more)));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal("distro", {}).find("give --resume to go on"), std::string::npos);
  EXPECT_NE(refusal("distro", {"--resume", "--seed", "7"}).find("run.seed is 1 there and 7 here"),
            std::string::npos);
  EXPECT_NE(refusal("adamw", {"--resume"}).find("method is distro there and adamw here"),
            std::string::npos);
  EXPECT_NE(refusal("distro", {"--resume", "--steps", "11"}).find("at step 12 already"),
            std::string::npos);
  write("text", "another text " + read("text"));
  EXPECT_NE(refusal("distro", {"--resume"}).find("text is "), std::string::npos);
  EXPECT_EQ(steps_in("saved"), before);
}

// However it is written.
TEST_F(CliSave, ADelayThatChangedIsNamed) {
  hash("mural", saving("saved", {"--until", "6"}));
  const Words set{"--resume", "--set", "optimizer.mural.delay=1"};
  for (const Outcome& outcome : {run(train("mural", saving("saved", set))),
                                 run(train("mural:delay=1", saving("saved", {"--resume"})))}) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("optimizer.mural.delay is 0 there and 1 here; give the same"),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(outcome.err.find('\n') + 1, outcome.err.size()) << outcome.err;
  }
  hash("mural:delay=0", saving("saved", {"--resume"}));
}

TEST_F(CliSave, DamagedOnesAreNamedAndTheOneBeforeIsTaken) {
  const std::string whole = hash("distro", {"--out", "report"});
  hash("distro", saving("saved"));
  const std::string newest = "saved/step-0000000012/site-2.rank-0.safetensors";
  fs::resize_file(path(newest), fs::file_size(path(newest)) - 1);
  const Outcome on = run(train("distro", saving("saved", {"--resume"})));
  EXPECT_EQ(hash_of(on), whole);
  EXPECT_NE(on.err.find("cannot use step-0000000012: site-2.rank-0.safetensors"), std::string::npos)
      << on.err;
  EXPECT_NE(on.err.find("goes on at step 9"), std::string::npos) << on.err;
}

TEST_F(CliSave, AFullDiskCostsTheCheckpointAndNotTheRun) {
  if (!mount_disk("size=2500k")) GTEST_SKIP() << "only root may mount a small disk";
  const Outcome outcome = run(train("adamw", saving("disk/saved", {"--sites", "1"})));
  const Outcome inspected = run({"inspect", "disk/saved"});
  ::umount(path("disk").c_str());
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("No space left on device; free some space"), std::string::npos)
      << outcome.err;
  EXPECT_NE(inspected.out.find("valid"), std::string::npos) << "the ones before are there";
  EXPECT_NE(outcome.out.find("hash"), std::string::npos) << "and so is the result";
}

// It takes the state over from a, and stays in the run to its end.
// Everything dies at one moment, each site with other checkpoints: the one that is furthest has the
// run, the others take the state over from it.
TEST_F(CliSave, SitesThatAllDiedGoOnTogetherFromWhatTheyHave) {
  const auto launches = [&](const std::string& hub, const Words& more) {
    std::vector<Launch> all;
    for (int i = 0; i < kSites; ++i) {
      const std::string name = "s" + std::to_string(i);
      Words words{"--save",
                  "saved-" + name,
                  "--save-every",
                  std::to_string(10 + 3 * i),
                  "--resume",
                  "--peer-timeout",
                  "1"};
      words.insert(words.end(), more.begin(), more.end());
      all.push_back(site(name, hub, words));
    }
    return all;
  };
  {
    Hub hub({.listen = "tcp://127.0.0.1:0", .sites = kSites});
    std::vector<Launch> first =
        launches(hub.hub.address(), {"--steps", "100000", "--eval-every", "100000"});
    for (Launch& launch : first) {
      launch.signal_when = "the run begins";
      launch.then = [&] {
        for (int i = 0; i < kSites; ++i) wait_for_checkpoint("saved-s" + std::to_string(i));
      };
      launch.signal = SIGKILL;
    }
    for (const Outcome& outcome : run_all(first)) EXPECT_EQ(outcome.code, -1);
  }
  Hub hub(
      {.listen = "tcp://127.0.0.1:0", .sites = kSites, .peer_timeout = std::chrono::seconds(1)});
  const auto outcomes = run_all(launches(
      hub.hub.address(), {"--steps", "100000", "--eval-every", "100000", "--until", "600"}));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(hash_of(outcome), hash_of(outcomes[0])) << outcome.err;
    EXPECT_NE(outcome.err.find("goes on at step"), std::string::npos) << outcome.err;
  }
}

TEST_F(CliSave, AGuardStopsTheRunOrTakesItBack) {
  // So near to the mean that ordinary noise is a spike.
  const Words jumpy{"--steps", "300", "--spike", "3", "--eval-every", "300", "--save-every", "20"};
  const auto guarded = [&](const std::string& policy) {
    Words words = saving(policy, jumpy);
    words.insert(words.end(), {"--guard", policy});
    return run(train("adamw", words));
  };
  const Outcome stopped = guarded("stop");
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_NE(stopped.err.find("is far above the usual"), std::string::npos) << stopped.err;
  EXPECT_FALSE(steps_in("stop").empty());
  const Outcome back = guarded("rollback");
  EXPECT_NE(back.err.find("the run goes back to step "), std::string::npos) << back.err;
  EXPECT_NE(back.err.find("it is left out, as was asked"), std::string::npos) << back.err;
  EXPECT_NE(hash_of(back), "none");
  expect_usage_error(train("adamw", {"--out", "out", "--guard", "rollback"}), "needs --save");
}

TEST_F(CliSave, AJoinerWithAFullDiskTrainsOn) {
  if (!mount_disk("size=100k")) GTEST_SKIP() << "only root may mount a small disk";
  Hub hub({.listen = "tcp://127.0.0.1:0",
           .sites = 2,
           .min_sites = 1,
           .peer_timeout = std::chrono::seconds(1)});
  const Words longer{"--peer-timeout", "1",    "--sites",      "2",
                     "--steps",        "1500", "--eval-every", "1500"};
  const auto words = [&](Words more) {
    more.insert(more.begin(), longer.begin(), longer.end());
    return more;
  };
  Outcome late;
  Launch early = site("a", hub.hub.address(), words({"--save", "early", "--save-every", "50"}));
  early.signal_when = "the run begins";
  early.then = [&] {
    wait_for_checkpoint("early");
    std::thread([&] {
      late = run_program(site("b", hub.hub.address(), words({"--save", "disk/late"})));
    }).join();
  };
  Outcome outcome = run_program(early);
  ::umount(path("disk").c_str());
  EXPECT_EQ(late.code, 1) << late.err;
  EXPECT_NE(late.err.find("No space left on device"), std::string::npos) << late.err;
  const auto json = nlohmann::json::parse(late.out, nullptr, false);
  ASSERT_TRUE(json.is_array()) << "the result is there all the same: " << late.err;
  EXPECT_EQ(json[0].value("hash", "none"), hash_of(outcome));
}

TEST_F(CliSave, ADirectoryThatCannotBeWrittenIsRefusedAtOnce) {
  if (!mount_disk("", MS_RDONLY)) GTEST_SKIP() << "only root may mount a disk";
  const Outcome outcome = run(train("distro", saving("disk/saved")));
  ::umount(path("disk").c_str());
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("cannot create disk/saved: Read-only file system"), std::string::npos)
      << outcome.err;
}

TEST_F(CliSave, TwoRunsDoNotShareADirectory) {
  const CheckpointWriter first({.dir = path("saved")});
  const Outcome second = run(train("distro", saving("saved")));
  EXPECT_EQ(second.code, 2) << second.err;
  EXPECT_NE(second.err.find("another run saves into saved"), std::string::npos) << second.err;
}

TEST_F(CliSave, AnExportedModelIsTheModelUnderItsPublishedNames) {
  hash("distro", saving("saved", {"--ranks", "2"}));
  const Outcome outcome = run({"export", "saved", "model.safetensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Result<TensorFile> model = TensorFile::open(path("model.safetensors"));
  ASSERT_TRUE(model) << model.why();
  EXPECT_EQ(model->metadata().at("format"), "pt");
  for (const char* name :
       {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight",
        "h.0.attn.c_proj.bias", "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight", "ln_f.bias"}) {
    ASSERT_NE(model->find(name), nullptr) << name;
  }
  EXPECT_EQ(model->find("h.0.attn.c_attn.weight")->shape, (std::vector<std::size_t>{64, 192}));
  EXPECT_EQ(model->verify(), "");
  // The same values as in the parts.
  const Result<TensorFile> part =
      TensorFile::open(path("saved/step-0000000012/site-0.rank-0.safetensors"));
  ASSERT_TRUE(part) << part.why();
  const TensorFile::Entry* from = part->find("parameters/wte.weight");
  ASSERT_NE(from, nullptr);
  Bytes saved(from->bytes), exported(from->bytes);
  part->read(*from, 0, saved);
  model->read(*model->find("wte.weight"), 0, exported);
  EXPECT_EQ(saved, exported);
}

TEST_F(CliSave, InspectShowsStepsTensorsAndDamage) {
  hash("distro", saving("saved"));
  const Outcome all = run({"inspect", "saved"});
  EXPECT_EQ(all.code, 0);
  EXPECT_NE(all.out.find("step-0000000012    valid"), std::string::npos) << all.out;
  const Outcome one = run({"inspect", "saved/step-0000000012"});
  EXPECT_NE(one.out.find("states/residual/h.0.attn.c_attn.weight"), std::string::npos) << one.out;
  const auto json = nlohmann::json::parse(run({"inspect", "saved", "--json"}).out);
  EXPECT_EQ(json.at(0).at("step"), 12);
  for (const char* step : {"06", "09", "12"})
    write(std::string("saved/step-00000000") + step + "/manifest.json", "{}");
  const Outcome none = run({"inspect", "saved"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.out.find("cannot be used"), std::string::npos) << none.out;
  EXPECT_NE(run(train("distro", saving("saved", {"--resume"}))).err.find("no checkpoint that can"),
            std::string::npos);
}

// All sites lose their hub for good, save the step they are in, and go on later at another hub:
// with the bits of a run that was never disturbed.
TEST_F(CliSave, SitesWithoutAHubSaveAndGoOnLaterWithTheSameBits) {
  for (const std::string method : {"distro:delay=1", "adamw"}) {
    const Words slow{"--steps", "600", "--eval-every", "300", "--ranks", "2"};
    Words words = slow;
    words.insert(words.end(), {"--out", "loopback"});
    const std::string whole = hash(method, words);
    const auto launches = [&](const std::string& hub, const Words& more) {
      std::vector<Launch> all;
      for (int i = 0; i < kSites; ++i) {
        const std::string name = "s" + std::to_string(i);
        Words of_site{"--site",         name, "--hub",         hub,
                      "--out",          name, "--save",        method + name,
                      "--save-every",   "40", "--hub-timeout", "1",
                      "--peer-timeout", "1"};
        of_site.insert(of_site.end(), slow.begin(), slow.end());
        of_site.insert(of_site.end(), more.begin(), more.end());
        all.push_back(launch(train(method, of_site)));
      }
      return all;
    };
    {
      auto hub =
          std::make_unique<Hub>(ZmqHubOptions{.listen = "tcp://127.0.0.1:0", .sites = kSites});
      std::vector<Launch> first = launches(hub->hub.address(), {});
      first[0].signal_when = "the run begins";
      first[0].then = [&] {
        wait_for_checkpoint(method + "s0");
        hub.reset();
      };
      for (const Outcome& outcome : run_all(first)) {
        EXPECT_EQ(outcome.code, 4) << method << "\n" << outcome.err;
        EXPECT_NE(outcome.err.find("saved at step "), std::string::npos) << outcome.err;
      }
    }
    Hub hub({.listen = "tcp://127.0.0.1:0", .sites = kSites});
    for (const Outcome& outcome : run_all(launches(hub.hub.address(), {"--resume"}))) {
      EXPECT_EQ(hash_of(outcome), whole) << method << "\n" << outcome.err;
    }
  }
}

}  // namespace
}  // namespace thinwire::test
