#include "tests/support/child.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "thinwire/error.h"
#include "transports/descriptor_internal.h"

namespace thinwire::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

int open_for(const std::string& path) {
  const char* name = path.empty() ? "/dev/null" : path.c_str();
  return ::open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// Between fork and exec: system calls alone. Gives errno when there is no way on.
int become(const ChildOptions& options, const Descriptor& out, const Descriptor& err, pid_t parent,
           char** words, char** environment) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) return ESRCH;
  if (options.net_space >= 0 && ::setns(options.net_space, CLONE_NEWNET) != 0) return errno;
  if (!options.directory.empty() && ::chdir(options.directory.c_str()) != 0) return errno;
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || ::dup2(in, 0) < 0 || ::dup2(out.number(), 1) < 0 || ::dup2(err.number(), 2) < 0) {
    return errno;
  }
  ::execve(words[0], words, environment);
  return errno;
}

}  // namespace

Child::Child(const ChildOptions& options) {
  std::vector<std::string> words = options.words;
  std::vector<std::string> environment{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C",
                                       "TERM=dumb"};
  const std::vector<char*> word_list = pointers(words);
  const std::vector<char*> environment_list = pointers(environment);
  const Descriptor out(open_for(options.output));
  const Descriptor err(open_for(options.errors));
  int ends[2];
  if (!out || !err || ::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error("cannot start " + words[0] + ": " + std::strerror(errno));
  }
  Descriptor said(ends[0]);
  Descriptor to_say(ends[1]);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    const int why = become(options, out, err, parent, const_cast<char**>(word_list.data()),
                           const_cast<char**>(environment_list.data()));
    static_cast<void>(!::write(to_say.number(), &why, sizeof why));
    ::_exit(127);
  }
  to_say.close();
  int why = process_ < 0 ? errno : 0;
  // Closed without a word when the program has begun.
  if (process_ > 0 && ::read(said.number(), &why, sizeof why) > 0) reap(true);
  if (why != 0) throw Error("cannot start " + words[0] + ": " + std::strerror(why));
}

Child::~Child() { kill(); }

void Child::signal(int number) const {
  if (!code_) ::kill(process_, number);
}

void Child::kill() {
  signal(SIGKILL);
  reap(true);
}

bool Child::running() { return !reap(false); }

std::optional<int> Child::wait(double seconds) {
  wait_until(seconds, [this] { return reap(false); });
  return code_;
}

double Child::memory_mib() const {
  std::ifstream status("/proc/" + std::to_string(process_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024.0;
  }
  return 0.0;
}

// Has it ended?
bool Child::reap(bool block) {
  if (code_) return true;
  int status = 0;
  pid_t ended = -1;
  do {
    ended = ::waitpid(process_, &status, block ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended != process_) return false;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

double monotonic_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void pause_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace thinwire::test
