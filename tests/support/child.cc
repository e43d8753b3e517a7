#include "tests/support/child.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "thinwire/error.h"

namespace thinwire::test {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

void send_to(posix_spawn_file_actions_t& actions, int file, const std::string& path) {
  const char* name = path.empty() ? "/dev/null" : path.c_str();
  posix_spawn_file_actions_addopen(&actions, file, name, O_WRONLY | O_CREAT | O_APPEND, 0644);
}

struct Spawned {
  pid_t process = -1;
  int error = 0;
};

Spawned spawn(const ChildOptions& options) {
  std::vector<std::string> words = options.words;
  std::vector<std::string> environment{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                                       "LC_ALL=C", "TERM=dumb"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  send_to(actions, 1, options.output);
  send_to(actions, 2, options.errors);
  if (!options.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.directory.c_str());
  }
  Spawned spawned;
  spawned.error = ::posix_spawnp(&spawned.process, words[0].c_str(), &actions, nullptr,
                                 pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return spawned;
}

// A namespace belongs to a thread, and a child is born in that of the thread which starts it.
Spawned spawn_in(const ChildOptions& options) {
  Spawned spawned;
  std::thread([&] {
    if (::setns(options.net_space, CLONE_NEWNET) == 0) {
      spawned = spawn(options);
    } else {
      spawned.error = errno;
    }
  }).join();
  return spawned;
}

}  // namespace

Child::Child(const ChildOptions& options) {
  const Spawned spawned = options.net_space < 0 ? spawn(options) : spawn_in(options);
  if (spawned.error != 0) {
    throw Error("cannot start " + options.words[0] + ": " + std::strerror(spawned.error));
  }
  process_ = spawned.process;
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
