// The program as one of several ranks that are processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <set>

#include "tests/support/near_fixture.h"
#include "thinwire/device.h"

namespace thinwire::test {
namespace {

using namespace std::chrono_literals;

bool is_there(const std::string& program) {
  for (const char* dir : {"/usr/bin/", "/usr/local/bin/"}) {
    if (std::filesystem::exists(dir + program)) return true;
  }
  return false;
}

TEST_F(CliNear, LaunchedRanksEndWithTheBitsOfThreads) {
  for (const auto& [method, ranks] : {std::pair("adamw", "2"), std::pair("distro", "4")}) {
    SCOPED_TRACE(std::string(method) + " on " + ranks);
    const Outcome threads = run(one_site(method, {"--ranks", ranks, "--out", "threads"}));
    const Outcome processes =
        run_launched(std::stoi(ranks), one_site(method, {"--out", "processes"}));
    EXPECT_EQ(hash_of(processes), hash_of(threads));
    const auto loss = [](const Outcome& outcome) {
      return nlohmann::json::parse(outcome.out)[0].value("loss", 0.0);
    };
    EXPECT_EQ(loss(processes), loss(threads));
  }
  EXPECT_TRUE(names_in("processes").contains("report.html"));
}

TEST_F(CliNear, SitesOfRanksAverageOverGlooToo) {
  const Words words = one_site("adamw", {"--sites", "2", "--out", "out"});
  Words threads = words;
  threads.insert(threads.end(), {"--ranks", "2"});
  Words processes = words;
  processes.insert(processes.end(), {"--far", "gloo"});
  EXPECT_EQ(hash_of(run_launched(4, processes)), hash_of(run(threads)));
}

TEST_F(CliNear, LaunchedRanksSaveOneCheckpointAndGoOnFromIt) {
  const std::string whole = hash_of(run(one_site("distro", {"--ranks", "2"})));
  const Words saved{"--save", path("saved"), "--save-every", "3"};
  Words first = one_site("distro", saved);
  first.insert(first.end(), {"--until", "6"});
  const Outcome half = run_launched(2, first);
  EXPECT_EQ(half.code, 0) << half.err;
  Words rest = one_site("distro", saved);
  rest.push_back("--resume");
  EXPECT_EQ(hash_of(run_launched(2, rest)), whole);
  EXPECT_EQ(names_in("saved").count("step-0000000012"), 1u);
}

TEST_F(CliNear, SitesOfProcessesMeetAtAHubBesideSitesOfThreads) {
  for (const char* method : {"adamw", "distro:delay=1"}) {
    SCOPED_TRACE(method);
    const Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
    const Words words = one_site(method, {"--sites", "2"});
    const auto at_hub = [&](const std::string& name) {
      Words all = words;
      all.insert(all.end(), {"--site", name, "--hub", hub.hub.address(), "--out", name});
      return all;
    };
    Launch processes = launch({"launch", "--ranks", "2", "--", THINWIRE_PROGRAM});
    const Words own = at_hub("processes");
    processes.words.insert(processes.words.end(), own.begin(), own.end());
    Words threads = at_hub("threads");
    threads.insert(threads.end(), {"--ranks", "2"});
    Words loopback = words;
    loopback.insert(loopback.end(), {"--ranks", "2"});
    const auto outcomes = run_all({processes, launch(threads)});
    const std::string expected = hash_of(run(loopback));
    EXPECT_EQ(hash_of(outcomes[0]), expected);
    EXPECT_EQ(hash_of(outcomes[1]), expected);
  }
}

// Longer than all that the ranks have patience for: rank 0 waits at the hub, the other for rank 0.
TEST_F(CliNear, ASiteOfProcessesStandsStillAtTheHubAsLongAsItTakes) {
  const Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 2, .min_sites = 2, .peer_timeout = 1s});
  const auto at_hub = [&](const std::string& name) {
    return one_site("distro", {"--sites", "2", "--ranks", "2", "--steps", "60", "--eval-every",
                               "30", "--site", name, "--hub", hub.hub.address(), "--out", name});
  };
  Launch processes = launch({"launch", "--ranks", "2", "--", THINWIRE_PROGRAM});
  Words words = at_hub("processes");
  words.insert(words.end(), {"--connect-timeout", "1.5", "--peer-timeout", "1", "--hub-timeout",
                             "1", "--near-timeout", "1"});
  processes.words.insert(processes.words.end(), words.begin(), words.end());
  Launch stopped = launch({"sh", "-c", "echo $$ > victim; exec \"$@\"", "sh", THINWIRE_PROGRAM});
  stopped.words.erase(stopped.words.begin());  // the program: the shell begins
  const Words threads = at_hub("threads");
  stopped.words.insert(stopped.words.end(), threads.begin(), threads.end());
  stopped.signal_when = "loss";
  stopped.then = [&] {
    const int victim = std::stoi(read("victim"));
    ::kill(victim, SIGSTOP);
    std::this_thread::sleep_for(5s);
    ::kill(victim, SIGCONT);
  };
  const auto outcomes = run_all({processes, stopped});
  EXPECT_EQ(hash_of(outcomes[0]), hash_of(outcomes[1]));
  EXPECT_GT(outcomes[0].after_s, 5.0);
}

TEST_F(CliNear, ASignalToOneRankGivesAllTheExitCodeOfThatSignal) {
  const int port = free_port();
  const Words words = one_site("distro", {"--steps", "1000000", "--eval-every", "500000"});
  Launch first = rank_of(0, 2, port, words);
  first.signal = SIGINT;
  first.signal_when = "loss";
  for (const Outcome& outcome : run_all({first, rank_of(1, 2, port, words)})) {
    EXPECT_EQ(outcome.code, 128 + SIGINT) << outcome.err;
  }
}

// The hub is lost for good: both sites save the step they are in, and go on at another one.
TEST_F(CliNear, SitesOfProcessesAtAHubSaveAndGoOnToo) {
  const Words words = one_site("distro:delay=1", {"--sites", "2", "--steps", "150"});
  const Words at_hub{"--peer-timeout", "1", "--hub-timeout", "1", "--save-every", "30"};
  const auto launches = [&](const std::string& hub, const Words& more) {
    std::vector<Launch> both;
    for (const std::string name : {"processes", "threads"}) {
      Words all = words;
      all.insert(all.end(),
                 {"--site", name, "--hub", hub, "--out", name, "--save", name + "-saved"});
      all.insert(all.end(), at_hub.begin(), at_hub.end());
      all.insert(all.end(), more.begin(), more.end());
      if (name == "threads") all.insert(all.end(), {"--ranks", "2"});
      both.push_back(launch(
          name == "threads" ? Words{} : Words{"launch", "--ranks", "2", "--", THINWIRE_PROGRAM}));
      both.back().words.insert(both.back().words.end(), all.begin(), all.end());
    }
    return both;
  };
  {
    auto hub = std::make_unique<Hub>(ZmqHubOptions{.listen = "tcp://127.0.0.1:0", .sites = 2});
    std::vector<Launch> first = launches(hub->hub.address(), {});
    first[0].signal_when = "the run begins";
    first[0].then = [&] {
      for (int i = 0; i < 1000 && !names_in("processes-saved").contains("step-0000000030"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      hub.reset();
    };
    for (const Outcome& outcome : run_all(first)) {
      EXPECT_EQ(outcome.code, 4) << outcome.err;
      EXPECT_NE(outcome.err.find("saved at step "), std::string::npos) << outcome.err;
    }
  }
  const Hub hub({.listen = "tcp://127.0.0.1:0", .sites = 2});
  const auto outcomes = run_all(launches(hub.hub.address(), {"--resume"}));
  Words loopback = words;
  loopback.insert(loopback.end(), {"--ranks", "2", "--out", "loopback"});
  const std::string expected = hash_of(run(loopback));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(hash_of(outcome), expected) << outcome.err;
    EXPECT_NE(outcome.err.find("goes on at step "), std::string::npos) << outcome.err;
  }
}

TEST_F(CliNear, RunsUnderMpirun) {
  if (!is_there("mpirun")) GTEST_SKIP() << "there is no mpirun here (openmpi-bin)";
  Launch mpi = launch(one_site("adamw"));
  const std::string port = std::to_string(free_port());
  const Words before{
      "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "-x", "MASTER_ADDR=127.0.0.1",
      "-x",     "MASTER_PORT=" + port};
  mpi.words.insert(mpi.words.begin(), before.begin(), before.end());
  mpi.environment = {"HOME=" + dir_.string()};
  EXPECT_EQ(hash_of(run_program(mpi)), hash_of(run(one_site("adamw", {"--ranks", "2"}))));
}

TEST_F(CliNear, TakesTheVariablesOfTorchrunAndSlurm) {
  const std::string expected = hash_of(run(one_site("adamw", {"--ranks", "2"})));
  const std::vector<std::vector<Words>> variables{
      {{"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "TORCHELASTIC_USE_AGENT_STORE=True"},
       {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "TORCHELASTIC_USE_AGENT_STORE=True"}},
      {{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_LOCALID=0", "SLURM_STEP_ID=0"},
       {"SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_STEP_ID=0"}}};
  for (const auto& ranks : variables) {
    SCOPED_TRACE(ranks[0][0]);
    const int port = free_port();
    std::vector<Launch> launches;
    for (const Words& own : ranks) {
      launches.push_back(launch(one_site("adamw")));
      launches.back().environment = master(port);
      launches.back().environment.insert(launches.back().environment.end(), own.begin(), own.end());
    }
    const std::vector<Outcome> outcomes = run_all(launches);
    EXPECT_EQ(hash_of(outcomes[0]), expected);
    EXPECT_EQ(outcomes[1].out, "") << "rank 0 reports, nobody else";
    EXPECT_EQ(outcomes[1].code, 0) << outcomes[1].err;
  }
}

TEST_F(CliNear, RanksMeetInADirectoryThatHoldsFilesOfEarlierRuns) {
  const std::string expected = hash_of(run(one_site("adamw", {"--ranks", "2"})));
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<Launch> launches;
    for (int rank = 0; rank < 2; ++rank) {
      launches.push_back(launch(one_site("adamw", {"--near-dir", path("meet")})));
      launches.back().environment = {"RANK=" + std::to_string(rank), "WORLD_SIZE=2"};
    }
    EXPECT_EQ(hash_of(run_all(launches)[0]), expected);
  }
}

TEST_F(CliNear, SlurmsBatchScriptIsNoRank) {
  Launch script = launch(one_site("adamw"));
  script.environment = {"SLURM_PROCID=0", "SLURM_NTASKS=4"};
  EXPECT_EQ(run_program(script).code, 0);
}

TEST_F(CliNear, RefusesVariablesThatMakeNoSense) {
  const std::vector<std::pair<Words, std::string>> cases{
      {{"RANK=2", "WORLD_SIZE=2"}, "RANK is '2'; it must be a whole number from 0 to 1"},
      {{"RANK=0", "WORLD_SIZE=0"}, "WORLD_SIZE is '0'; it must be a whole number of 1 or more"},
      {{"RANK=0", "WORLD_SIZE=two"}, "WORLD_SIZE is 'two'"},
      {{"RANK=-1", "WORLD_SIZE=2"}, "RANK is '-1'"},
      {{"RANK=1.5", "WORLD_SIZE=2"}, "RANK is '1.5'"},
      {{"RANK=", "WORLD_SIZE=2"}, "RANK is ''"},
      {{"WORLD_SIZE=2"}, "WORLD_SIZE is set but RANK is not"},
      {{"OMPI_COMM_WORLD_RANK=0"}, "OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_SIZE is not"},
      {{"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=4"}, "OMPI_COMM_WORLD_RANK is '5'"},
      {{"SLURM_PROCID=3", "SLURM_NTASKS=3", "SLURM_STEP_ID=0"}, "SLURM_PROCID is '3'"},
      {{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=29500"}, "MASTER_ADDR is not set"},
      {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h"}, "MASTER_PORT is not set"},
      {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=0"}, "MASTER_PORT is '0'"},
  };
  for (const auto& [variables, text] : cases) {
    Launch one = launch(one_site("adamw"));
    one.environment = variables;
    expect_refused(one, 2, text);
  }
}

TEST_F(CliNear, RefusesSettingsThatContradictTheVariables) {
  const auto refused = [&](const Words& more, const std::string& text) {
    expect_refused(rank_of(0, 2, 1, one_site("adamw", more)), 2, text);
  };
  refused({"--ranks", "3"}, "--ranks 3 of --sites 1 is not what was started: 2 ranks in all");
  refused({"--sites", "2"},
          "2 ranks as processes are one site; give --sites 1, --site and --hub, or --far gloo");
  refused({"--sites", "3", "--far", "gloo"}, "2 ranks cannot be divided evenly among --sites 3");
  refused({"--near", "mpi"}, "--near is auto, loopback, gloo or nccl, not 'mpi'");
  refused({"--far", "mpi"}, "--far is hub or gloo, not 'mpi'");
  refused({"--near-timeout", "0"}, "--near-timeout");
  expect_usage_error(one_site("adamw", {"--near", "gloo"}),
                     "--near gloo needs RANK and WORLD_SIZE, or the like");
}

// Where there is a device for each, tests/cuda runs it.
TEST_F(CliNear, NcclWithoutADeviceSaysWhatTheDriverSays) {
  if (cuda_problem().empty()) GTEST_SKIP() << cuda_devices() << " CUDA devices are here";
  const std::string text =
      "--near nccl needs a CUDA device for each rank, or take another --near: " + cuda_problem();
  expect_usage_error(one_site("adamw", {"--near", "nccl", "--ranks", "2"}), text);
  expect_refused(rank_of(0, 2, 1, one_site("adamw", {"--near", "nccl"})), 2, text);
  Launch lost = rank_of(0, 2, 1, one_site("adamw", {"--near", "nccl"}));
  lost.environment.push_back("LOCAL_RANK=2");
  expect_refused(lost, 2, "LOCAL_RANK is '2'; it must be a whole number from 0 to 1");
  const Outcome launched = run_launched(2, one_site("adamw", {"--near", "nccl"}));
  EXPECT_EQ(launched.code, 2) << launched.err;
  EXPECT_NE(launched.err.find(text), launched.err.npos) << launched.err;
}

TEST_F(CliNear, AMasterThatCannotBeReachedIsNamedAfterTheTimeout) {
  const std::string port = std::to_string(free_port());
  Launch one = rank_of(1, 2, 1, one_site("adamw", {"--connect-timeout", "0.5"}));
  one.environment[1] = "MASTER_PORT=" + port;
  expect_refused(one, 1, "rank 0 cannot be reached at 127.0.0.1:" + port + ": Connection refused");
  one.environment[0] = "MASTER_ADDR=no-such-host.invalid";
  expect_refused(one, 1, "rank 0 cannot be reached at no-such-host.invalid:" + port);
}

TEST_F(CliNear, APortInUseIsNamed) {
  const near::StoreServer server(0);
  expect_refused(rank_of(0, 2, server.port(), one_site("adamw")), 1,
                 "rank 0 cannot listen on port " + std::to_string(server.port()));
}

TEST_F(CliNear, ARankThatDoesNotComeIsNamed) {
  expect_refused(
      rank_of(0, 3, free_port(),
              one_site("adamw", {"--ranks", "3", "--batch", "6", "--connect-timeout", "0.5"})),
      1, "rank 1, rank 2 did not come to 127.0.0.1:");
}

TEST_F(CliNear, RanksWithOtherSettingsAreRefusedAtBothEnds) {
  const int port = free_port();
  const auto outcomes = run_all({rank_of(0, 2, port, one_site("adamw")),
                                 rank_of(1, 2, port, one_site("adamw", {"--steps", "13"}))});
  EXPECT_EQ(outcomes[0].code, 2);
  EXPECT_EQ(outcomes[1].code, 2);
  for (const Outcome& outcome : outcomes) {
    EXPECT_NE(outcome.err.find("was given other settings than rank"), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("steps = 1"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace thinwire::test
