#include "apps/gnuplot.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

extern char** environ;

namespace thinwire::app {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{20};

class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// The script as a file in memory: a child that stops reading early cannot block us or signal us.
File in_memory(std::string_view text) {
  File file(::memfd_create("plot", MFD_CLOEXEC));
  while (file.number() >= 0 && !text.empty()) {
    ssize_t written = ::write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return File();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (file.number() >= 0) ::lseek(file.number(), 0, SEEK_SET);
  return file;
}

std::optional<pid_t> spawn(const File& input, const File& output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.number(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.number(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  char name[] = "gnuplot", defaults[] = "-d";
  char* arguments[] = {name, defaults, nullptr};
  pid_t child = -1;
  int trouble = posix_spawnp(&child, name, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return trouble == 0 ? std::optional(child) : std::nullopt;
}

// Everything until the other end closes; nothing when that takes too long.
std::optional<std::string> read_all(const File& file) {
  std::string text;
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{file.number(), POLLIN, 0};
    int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready == 0) return std::nullopt;
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready < 0) continue;
    char buffer[65536];
    ssize_t got = ::read(file.number(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

bool ended_well(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::optional<std::string> run_gnuplot(const std::string& script) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  File read_end(ends[0]), write_end(ends[1]);
  File input = in_memory(script);
  if (input.number() < 0) return std::nullopt;
  std::optional<pid_t> child = spawn(input, write_end);
  write_end = File();  // the child's copy is the only one left
  if (!child) return std::nullopt;
  std::optional<std::string> output = read_all(read_end);
  if (!output) ::kill(*child, SIGKILL);
  return ended_well(*child) ? output : std::nullopt;
}

}  // namespace thinwire::app
