// --device through the whole program, with devices that are emulated and without any.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/cli_far_fixture.h"
#include "thinwire/device.h"

namespace thinwire::test {
namespace {

class CliDevice : public CliFar {
 protected:
  Launch emulated(const Words& words, const Words& machine = {}) const {
    Launch result = launch(words);
    result.words[0] = EMULATED_PROGRAM;
    result.environment = machine;
    return result;
  }
  // Emulated threads are slow.
  static Words smaller(const std::string& methods) {
    return small_run("out", {"--methods", methods, "--steps", "4", "--eval-windows", "2", "--json",
                             "--set", "model.width=32", "--set", "model.context=16"});
  }
  static nlohmann::json results(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out, nullptr, false);
  }
};

TEST_F(CliDevice, TrainsOnADeviceAsOnTheHost) {
  const Words words = smaller("adamw,mural,diloco:h=2,signum");
  Words there = words;
  there.insert(there.end(), {"--device", "cuda"});
  const auto on_host = results(run(words));
  const auto on_device = results(run_program(emulated(there)));
  ASSERT_EQ(on_device.size(), on_host.size());
  for (std::size_t i = 0; i < on_host.size(); ++i) {
    // Gradients differ by rounding, and a vote may then fall the other way.
    EXPECT_NEAR(on_device[i]["loss"], on_host[i]["loss"], 0.02) << on_host[i]["method"];
  }
  EXPECT_NE(on_device[0]["hash"], on_host[0]["hash"]) << "was it on the device at all?";
  const auto again = results(run_program(emulated(there)));
  for (std::size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i]["hash"], on_device[i]["hash"]) << "the same run, the same bits";
  }
}

TEST_F(CliDevice, RanksTakeDevicesInTurn) {
  Words words = smaller("mural,adamw");
  words.insert(words.end(), {"--device", "cuda", "--sites", "1", "--ranks", "2"});
  const auto one = results(run_program(emulated(words, {"EMULATED_DEVICES=1"})));
  EXPECT_EQ(results(run_program(emulated(words, {"EMULATED_DEVICES=3"})))[0]["hash"],
            one[0]["hash"]);
  words.insert(words.end(), {"--device", "cuda:2"});
  EXPECT_EQ(results(run_program(emulated(words, {"EMULATED_DEVICES=3"})))[0]["hash"],
            one[0]["hash"]);
}

// Two sites compute on devices, two on the host.
TEST_F(CliDevice, SitesOnDevicesAndHostsMeetAtAHubAndEndEqual) {
  for (const std::string method : {"mural", "adamw"}) {
    Hub hub({.listen = "tcp://127.0.0.1:0", .sites = kSites});
    std::vector<Outcome> outcomes(kSites);
    run_threads(kSites, [&](int i) {
      const std::string name = "s" + std::to_string(i);
      const Words words = train(
          method, {"--site", name, "--hub", hub.hub.address(), "--out", method + name, "--device",
                   i < 2 ? "cuda" : "cpu", "--steps", "5", "--set", "model.width=32"});
      outcomes[i] = run_program(i < 2 ? emulated(words) : launch(words));
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(hash_of(outcome), hash_of(outcomes[0])) << method << "\n" << outcome.err;
    }
  }
}

TEST_F(CliDevice, WithoutADeviceTheDriversAnswerIsNamed) {
  const Words cuda = small_run("out", {"--device", "cuda"});
  const auto expect = [&](const Words& machine, const std::string& part) {
    expect_refused(emulated(cuda, machine), 2, part);
  };
  expect({"EMULATED_DRIVER=0"}, "no CUDA driver is installed (");
  expect({"EMULATED_DRIVER=12040"}, "the driver knows CUDA up to 12.4, this program needs 13.0");
  expect({"EMULATED_DEVICES=0"}, "no CUDA-capable device is detected");
  expect({"EMULATED_CAPABILITY=75"}, "compute capability 7.x, 8.0 is needed");
  if (!cuda_problem().empty()) expect_usage_error(cuda, "--device cuda: " + cuda_problem());
  expect_usage_error(small_run("out", {"--device", "gpu"}), "must be auto, cpu, cuda or cuda:N");
  expect_usage_error(small_run("out", {"--device", "cuda:x"}), "a number from 0 on");
  expect_refused(emulated(small_run("out", {"--device", "cuda:2"})), 2,
                 "there is no CUDA device 2; this machine has 2");
}

TEST_F(CliDevice, AutoTakesTheHostWhereThereIsNoDevice) {
  const Words words = smaller("adamw");
  const auto on_host = results(run(words));
  EXPECT_EQ(results(run_program(emulated(words, {"EMULATED_DRIVER=0"})))[0]["hash"],
            on_host[0]["hash"]);
  EXPECT_NE(results(run_program(emulated(words)))[0]["hash"], on_host[0]["hash"]);
}

TEST_F(CliDevice, WithoutRoomItSaysWhatWasAskedForAndWhatIsFree) {
  for (const char* bytes : {"EMULATED_BYTES=5000", "EMULATED_BYTES=600000"}) {
    const Outcome outcome = run_program(emulated(small_run("out", {"--device", "cuda"}), {bytes}));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("has no room for "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("are free; take a smaller model"), std::string::npos);
  }
}

// At any moment; what was saved before is good, on the host too.
TEST_F(CliDevice, ALostDeviceEndsTheRunWithWhatToDoAndTheCheckpointGoesOn) {
  Words words = train("mural", {"--save", "kept", "--save-every", "2", "--steps", "60"});
  words.insert(words.end(), {"--eval-every", "60", "--set", "model.width=32", "--batch", "2",
                             "--sites", "1", "--out", "run"});
  Words there = words;
  there.insert(there.end(), {"--device", "cuda"});
  for (const char* calls : {"40", "1000", "3000"}) {
    const Outcome lost = run_program(emulated(there, {std::string("EMULATED_CALLS=") + calls}));
    EXPECT_EQ(lost.code, 1) << calls;
    EXPECT_NE(lost.err.find("the CUDA device failed in "), std::string::npos) << lost.err;
    EXPECT_NE(lost.err.find("go on from a checkpoint"), std::string::npos) << lost.err;
    std::filesystem::remove_all(path("run"));
    if (calls != std::string("3000")) std::filesystem::remove_all(path("kept"));
  }
  words.insert(words.end(), {"--resume", "--until", "50", "--device", "cpu"});
  results(run(words));
}

}  // namespace
}  // namespace thinwire::test
