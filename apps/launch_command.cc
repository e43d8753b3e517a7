#include "apps/launch_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string_view>

#include "apps/rank_process.h"
#include "apps/stop.h"
#include "thinwire/error.h"
#include "thinwire/log.h"
#include "transports/gloo_store_internal.h"

namespace thinwire::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanksMax = 1024;
constexpr int kTickMs = 50;
constexpr std::chrono::milliseconds kListening{1'000};

// Those of this process, without what tells a rank its place.
std::vector<std::string> environment_of(int rank, const LaunchCommand& command, int port) {
  const std::vector<std::pair<std::string, std::string>> own{
      {"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(command.ranks)},
      {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(command.ranks)},
      {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)},
      {"TORCHELASTIC_USE_AGENT_STORE", ""}};
  std::vector<std::string> environment;
  for (char** one = ::environ; *one != nullptr; ++one) {
    const std::string_view name =
        std::string_view(*one).substr(0, std::string_view(*one).find('='));
    bool ours = false;
    for (const auto& [known, value] : own) ours = ours || name == known;
    if (!ours) environment.emplace_back(*one);
  }
  for (const auto& [name, value] : own) {
    if (!value.empty()) environment.push_back(name + "=" + value);
  }
  return environment;
}

int free_port() { return near::StoreServer(0).port(); }

class Launch {
 public:
  explicit Launch(const LaunchCommand& command) : command_(command) {
    const int port = command.port > 0 ? command.port : free_port();
    for (int rank = 0; rank < command.ranks; ++rank) {
      ranks_.push_back(
          std::make_unique<RankProcess>(rank, command.run, environment_of(rank, command, port)));
    }
  }

  int watch() {
    while (true) {
      wait_for_news();
      for (const auto& rank : ranks_) rank->pass_on();
      pass_signal_on();
      const std::size_t running = look();
      if (running == 0) return code_;
      ask_to_end();
      if (ending_ && Clock::now() > *ending_) {
        for (const auto& rank : ranks_) rank->signal(SIGKILL);
      }
    }
  }

 private:
  void wait_for_news() const {
    std::vector<pollfd> files;
    for (const auto& rank : ranks_) {
      files.push_back({rank->out(), POLLIN, 0});
      files.push_back({rank->err(), POLLIN, 0});
    }
    ::poll(files.data(), files.size(), kTickMs);
  }

  // A second one ends this process, and with it the ranks.
  void pass_signal_on() {
    if (passed_on_ || stop_signal() == 0) return;
    passed_on_ = true;
    for (const auto& rank : ranks_) rank->signal(stop_signal());
    end_by(command_.grace_s);
  }

  void end_by(double seconds) {
    if (!ending_)
      ending_ = Clock::now() + std::chrono::milliseconds(static_cast<long>(1e3 * seconds));
  }

  // How many run. Where several have ended since the last look, one that a signal ended comes
  // first: the others have only noticed.
  std::size_t look() {
    const RankProcess* failed = nullptr;
    int code = 0;
    std::size_t running = 0;
    for (const auto& rank : ranks_) {
      const std::optional<int> ended = rank->ended();
      if (!ended) ++running;
      if (ended.value_or(0) == 0 || (failed != nullptr && !rank->by_signal())) continue;
      if (failed != nullptr && failed->by_signal()) continue;
      failed = rank.get();
      code = *ended;
    }
    if (failed == nullptr || code_ != 0) return running;
    code_ = code;
    if (passed_on_) return running;
    log_warn(fmt::format("launch: rank {} {}; ending the others", failed->rank(),
                         failed->by_signal() ? fmt::format("was ended by signal {}", code - 128)
                                             : fmt::format("failed with exit code {}", code)));
    // Most find out by themselves, and have something to say about it.
    asking_ = Clock::now() + kListening;
    return running;
  }

  void ask_to_end() {
    if (!asking_ || Clock::now() < *asking_ || ending_) return;
    for (const auto& rank : ranks_) {
      if (!rank->ended()) rank->signal(SIGTERM);
    }
    end_by(command_.grace_s);
  }

  const LaunchCommand& command_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::optional<Clock::time_point> asking_;  // when those who are left are asked to end
  std::optional<Clock::time_point> ending_;  // when they are ended
  bool passed_on_ = false;
  int code_ = 0;
};

}  // namespace

int launch(const LaunchCommand& command) {
  if (command.ranks < 1 || command.ranks > kRanksMax) {
    throw UsageError(fmt::format("--ranks {}: give 1 to {} ranks", command.ranks, kRanksMax));
  }
  if (command.run.empty()) {
    throw UsageError(
        "launch needs what each rank is to run: thinwire launch --ranks 4 -- thinwire train");
  }
  if (command.port < 0 || command.port > 65'535) throw UsageError("--port must be 1 to 65535");
  if (!(command.grace_s >= 0.0) || command.grace_s > 3'600.0) {
    throw UsageError("--grace must be 0 to 3600 seconds");
  }
  return Launch(command).watch();
}

}  // namespace thinwire::app
