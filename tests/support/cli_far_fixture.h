// The program as a site of a run between processes, and a hub at hand.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cli_fixture.h"
#include "tests/support/threads.h"
#include "transports/zmq.h"

namespace thinwire::test {

inline constexpr int kSites = 4;

class CliFar : public CliTest {
 protected:
  // A hub that is up for as long as this lives.
  struct Hub {
    explicit Hub(const ZmqHubOptions& options) : hub(options), thread([this] { hub.run(); }) {}
    ~Hub() { hub.stop(); }
    ZmqHub hub;
    std::jthread thread;
  };

  static Words train(const std::string& method, const Words& more) {
    Words words{
        "train",          "--method", method,    "--data", "text",         "--sites", "4",
        "--batch",        "8",        "--steps", "12",     "--eval-every", "6",       "--json",
        "--eval-windows", "4"};
    for (const char* set : {"model.layers=1", "model.width=64", "model.context=32"}) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static std::string hash_of(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    return json.is_array() && !json.empty() ? json[0].value("hash", "none") : "none";
  }

  // One site of a run of its own words, which win over those of train().
  Launch site(const std::string& name, const std::string& hub, const Words& more = {}) const {
    Words words{"--site", name, "--hub", hub, "--out", "out-" + name};
    words.insert(words.end(), more.begin(), more.end());
    return launch(train("distro", words));
  }

  // All at the same time.
  static std::vector<Outcome> run_all(const std::vector<Launch>& launches) {
    std::vector<Outcome> outcomes(launches.size());
    run_threads(static_cast<int>(launches.size()),
                [&](int i) { outcomes[i] = run_program(launches[i]); });
    return outcomes;
  }

  std::vector<Outcome> run_sites(const std::string& method, const std::string& hub,
                                 const Words& more = {}) const {
    std::vector<Outcome> outcomes(kSites);
    run_threads(kSites, [&](int i) {
      const std::string name = "s" + std::to_string(i);
      Words words{"--site", name, "--hub", hub, "--out", name};
      words.insert(words.end(), more.begin(), more.end());
      if (!more.empty()) words.insert(words.end(), {"--keys", name + ".key"});
      outcomes[i] = run(train(method, words));
    });
    return outcomes;
  }
};

}  // namespace thinwire::test
