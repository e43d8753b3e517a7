#include "tests/support/net_space.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "thinwire/error.h"

namespace thinwire::test {
namespace {

void raise_loopback() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq wish{};
  std::strcpy(wish.ifr_name, "lo");
  wish.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(socket.number(), SIOCSIFFLAGS, &wish) != 0) {
    throw Error(std::string("cannot raise the loopback interface: ") + std::strerror(errno));
  }
}

}  // namespace

NetSpace::NetSpace() {
  run_threads(1, [this](int) {
    if (::unshare(CLONE_NEWNET) != 0) {
      throw Error(std::string("cannot make a network namespace: ") + std::strerror(errno));
    }
    file_ = Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    raise_loopback();
  });
}

std::string NetSpace::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file());
}

void NetSpace::enter(const std::string& space) {
  const std::string path = space.find('/') == std::string::npos ? "/run/netns/" + space : space;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::setns(file.number(), CLONE_NEWNET) != 0) {
    throw Error("cannot enter the network namespace " + path + ": " + std::strerror(errno));
  }
}

}  // namespace thinwire::test
