// Runs the real program as a child process, without a shell, and gives back all that it left.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace thinwire::test {

struct Launch {
  std::vector<std::string> words;             // program and arguments
  std::vector<std::string> environment = {};  // "NAME=VALUE" on top of a small, fixed one
  bool terminal = false;                      // standard error is a terminal of 80 columns
  std::string directory = {};                 // to run in
  std::string output = {};                    // a file that standard output goes into instead
  int signal = 0;  // sent once, as soon as standard error holds signal_when
  std::string signal_when = {};
  std::function<void()> then = {};  // called when signal_when is there, before the signal
  int patience_s = 60;              // then it is killed and the test fails
};

struct Outcome {
  int code = -1;         // exit code; -1 when a signal ended it
  double after_s = 0.0;  // from the signal, or from the start without one, to the end
  std::string out;
  std::string err;
};

// Are there pseudo-terminals here? A bare chroot may have none.
inline bool has_terminals() {
  int ends[2];
  if (::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) != 0) return false;
  ::close(ends[0]);
  ::close(ends[1]);
  return true;
}

namespace program_detail {

using Clock = std::chrono::steady_clock;

inline std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

struct Ends {
  int read = -1;
  int write = -1;
};

inline Ends open_ends(bool terminal) {
  Ends ends;
  if (terminal) {
    winsize size{24, 80, 0, 0};
    EXPECT_EQ(::openpty(&ends.read, &ends.write, nullptr, nullptr, &size), 0);
    ::fcntl(ends.read, F_SETFD, FD_CLOEXEC);
    ::fcntl(ends.write, F_SETFD, FD_CLOEXEC);
    return ends;
  }
  int pair[2];
  EXPECT_EQ(::pipe2(pair, O_CLOEXEC), 0);
  return {pair[0], pair[1]};
}

inline pid_t spawn(const Launch& launch, int out, int err) {
  std::vector<std::string> words = launch.words;
  // The first of two entries of one name counts.
  std::vector<std::string> environment = launch.environment;
  for (const char* fixed :
       {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/games", "TERM=xterm", "LC_ALL=C"}) {
    environment.emplace_back(fixed);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  if (!launch.output.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, launch.output.c_str(), O_WRONLY, 0);
  }
  if (!launch.directory.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, launch.directory.c_str());
  }
  pid_t child = -1;
  EXPECT_EQ(::posix_spawnp(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                           pointers(environment).data()),
            0)
      << words[0];
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

// Appends what there is; false at the end. A terminal says EIO when its last writer has left.
inline bool take(int file, std::string& text) {
  char buffer[4096];
  const ssize_t got = ::read(file, buffer, sizeof buffer);
  if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  return got > 0;
}

}  // namespace program_detail

inline Outcome run_program(const Launch& launch) {
  using namespace program_detail;
  const Ends out = open_ends(false);
  const Ends err = open_ends(launch.terminal);
  const pid_t child = spawn(launch, out.write, err.write);
  ::close(out.write);
  ::close(err.write);
  Outcome outcome;
  if (child < 0) return outcome;
  Clock::time_point begin = Clock::now();
  const Clock::time_point deadline = begin + std::chrono::seconds(launch.patience_s);
  std::array<pollfd, 2> files{{{out.read, POLLIN, 0}, {err.read, POLLIN, 0}}};
  bool to_signal = launch.signal != 0 || launch.then;
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "killed after " << launch.patience_s << " s; so far: " << outcome.err;
      ::kill(child, SIGKILL);
    }
    ::poll(files.data(), files.size(), 100);
    if (files[0].revents && !take(out.read, outcome.out)) files[0].fd = -1;
    if (files[1].revents && !take(err.read, outcome.err)) files[1].fd = -1;
    if (to_signal && outcome.err.find(launch.signal_when) != std::string::npos) {
      if (launch.then) launch.then();
      if (launch.signal != 0) ::kill(child, launch.signal);
      begin = Clock::now();
      to_signal = false;
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.after_s = std::chrono::duration<double>(Clock::now() - begin).count();
  ::close(out.read);
  ::close(err.read);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace thinwire::test
