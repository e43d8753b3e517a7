// slow_link [--delay-ms D] [--rate-mbit R] [--queue-ms Q] [--loss P] [--seed S] [--name DEVICE]
//           [--hosts A,B] SPACE_A SPACE_B
// A slow link between two network namespaces (tun_link.h), the same both ways. Says "ready" when it
// is up and lives until SIGTERM or its parent's end. SIGSTOP freezes it, SIGCONT thaws it, SIGKILL
// unplugs it; from SIGUSR1 to SIGUSR2 packets vanish.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/tun_link.h"
#include "thinwire/error.h"

namespace {

using namespace thinwire;
using namespace thinwire::test;

struct Command {
  LinkOptions link;
  std::string device = "far";
  std::string hosts = "10.77.0.1,10.77.0.2";
  std::vector<std::string> spaces;
};

double number(const std::string& flag, const std::string& text) {
  std::size_t used = 0;
  double value = -1.0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  if (used != text.size() || !(value >= 0.0)) {
    throw UsageError(flag + " needs a number from 0 on, got '" + text + "'");
  }
  return value;
}

Command parse(const std::vector<std::string>& words) {
  Command command;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& flag = words[i];
    if (!flag.starts_with("--")) {
      command.spaces.push_back(flag);
      continue;
    }
    if (++i == words.size()) throw UsageError(flag + " needs a value");
    if (flag == "--delay-ms") {
      command.link.delay_ms = number(flag, words[i]);
    } else if (flag == "--rate-mbit") {
      command.link.rate_mbit = number(flag, words[i]);
    } else if (flag == "--queue-ms") {
      command.link.queue_ms = number(flag, words[i]);
    } else if (flag == "--loss") {
      command.link.loss = number(flag, words[i]);
    } else if (flag == "--seed") {
      command.link.seed = static_cast<std::uint64_t>(number(flag, words[i]));
    } else if (flag == "--name") {
      command.device = words[i];
    } else if (flag == "--hosts") {
      command.hosts = words[i];
    } else {
      throw UsageError("unknown flag " + flag);
    }
  }
  if (command.spaces.size() != 2) throw UsageError("give two network namespaces");
  if (command.hosts.find(',') == std::string::npos) throw UsageError("--hosts takes A,B");
  if (command.link.rate_mbit == 0.0) throw UsageError("--rate-mbit lies above 0");
  return command;
}

void run(const Command& command) {
  const std::size_t comma = command.hosts.find(',');
  TunLink link({command.spaces[0], command.device, command.hosts.substr(0, comma)},
               {command.spaces[1], command.device, command.hosts.substr(comma + 1)}, command.link,
               command.link);
  std::puts("ready");
  std::fflush(stdout);
  std::jthread carrier([&] { link.run(); });
  const pid_t parent = ::getppid();
  sigset_t signals;
  sigemptyset(&signals);
  for (int one : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&signals, one);
  const timespec second{1, 0};
  for (int heard = 0; heard != SIGTERM && heard != SIGINT && ::getppid() == parent;) {
    heard = ::sigtimedwait(&signals, nullptr, &second);
    if (heard == SIGUSR1) link.set(Flow::drop, Flow::drop);
    if (heard == SIGUSR2) link.set(Flow::pass, Flow::pass);
  }
  link.stop();
}

}  // namespace

int main(int argc, char** argv) {
  // Before any thread is there: all of them leave these to sigtimedwait.
  sigset_t signals;
  sigemptyset(&signals);
  for (int one : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&signals, one);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    run(parse({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slow_link: %s\n", error.what());
    return 1;
  }
  return 0;
}
