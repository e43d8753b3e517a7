// A hub that is a process of its own, so that it can be killed and frozen.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/program.h"
#include "transports/zmq.h"

namespace thinwire::test {

// Free a moment ago.
inline std::string free_address() { return ZmqHub({.listen = "tcp://127.0.0.1:0"}).address(); }

class HubProcess {
 public:
  HubProcess(const std::string& address, int sites, double peer_timeout_s) {
    Launch launch{.words = {THINWIRE_PROGRAM, "hub", "--listen", address, "--sites",
                            std::to_string(sites), "--peer-timeout",
                            std::to_string(peer_timeout_s)}};
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    process_ = program_detail::spawn(launch, null, null);
    ::close(null);
  }
  ~HubProcess() { kill(); }

  void freeze() const { ::kill(process_, SIGSTOP); }
  void thaw() const { ::kill(process_, SIGCONT); }
  void kill() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
};

}  // namespace thinwire::test
