#include "apps/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

constexpr std::size_t kLineMax = 1u << 20;   // longer ones are broken
constexpr std::size_t kLeftMost = 1u << 20;  // in a pipe, the most that Linux lets it hold

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw Error(fmt::format("cannot start a rank: {}", std::strerror(errno)));
  }
  return {ends[0], ends[1]};
}

// Between fork and exec: system calls alone. Gives errno when there is no way on.
int become(char** words, char** environment, int out, int err, pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) return ESRCH;
  ::setpgid(0, 0);
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) {
    ::sigaction(number, &plain, nullptr);
  }
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (in < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0) return errno;
  ::execvpe(words[0], words, environment);
  return errno;
}

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t now = ::write(file, text.data() + done, text.size() - done);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return;  // nobody reads it any more
    done += static_cast<std::size_t>(now);
  }
}

}  // namespace

RankProcess::RankProcess(int rank, const std::vector<std::string>& words,
                         const std::vector<std::string>& environment, std::string* kept)
    : rank_(rank), kept_(kept) {
  const std::vector<char*> word_list = pointers(words);
  const std::vector<char*> environment_list = pointers(environment);
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  const Pipe fate = make_pipe();
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    const int why =
        become(const_cast<char**>(word_list.data()), const_cast<char**>(environment_list.data()),
               out.write, err.write, parent);
    static_cast<void>(!::write(fate.write, &why, sizeof why));
    ::_exit(127);
  }
  int why = process_ < 0 ? errno : 0;
  for (const int file : {out.write, err.write, fate.write}) ::close(file);
  out_.file = out.read;
  err_.file = err.read;
  // Closed without a word when the program has begun.
  if (process_ > 0 && ::read(fate.read, &why, sizeof why) > 0) ::waitpid(process_, nullptr, 0);
  ::close(fate.read);
  if (why == 0) {
    for (const int file : {out.read, err.read}) ::fcntl(file, F_SETFL, O_NONBLOCK);
    return;
  }
  ::close(out.read);
  ::close(err.read);
  const std::string what = fmt::format("cannot start '{}': {}", words[0], std::strerror(why));
  if (why == ENOENT || why == EACCES) {
    throw UsageError(what + "; give a program after --, by its path or from PATH");
  }
  throw Error(what);
}

RankProcess::~RankProcess() {
  signal(SIGKILL);
  ::waitpid(process_, nullptr, 0);
  for (const Stream* stream : {&out_, &err_}) {
    if (stream->file >= 0) ::close(stream->file);
  }
}

void RankProcess::pass_on() {
  pass_on(out_, false);
  pass_on(err_, false);
}

void RankProcess::pass_on(Stream& stream, bool at_end) {
  // One piece in each turn: a rank that prints without end leaves the others theirs. At the end all
  // that it left in the pipe, and no more: others of its group may still print.
  std::size_t left = at_end ? kLeftMost : 1;
  while (stream.file >= 0 && left > 0) {
    char buffer[65'536];
    const ssize_t got = ::read(stream.file, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && !at_end) break;
    if (got > 0) {
      stream.line.append(buffer, static_cast<std::size_t>(got));
      left -= std::min(left, static_cast<std::size_t>(got));
    }
    if (got <= 0 || (at_end && left == 0)) ::close(std::exchange(stream.file, -1));
  }
  std::string text;
  // The result, which rank 0 alone prints, may be for a machine.
  const bool plain = kept_ != nullptr || (rank_ == 0 && &stream == &out_);
  const std::string prefix = plain ? "" : fmt::format("[rank {}] ", rank_);
  const bool over = stream.file < 0;
  std::size_t begin = 0;
  while (begin < stream.line.size()) {
    std::size_t end = stream.line.find('\n', begin);
    if (end == stream.line.npos) {
      if (!over && stream.line.size() - begin < kLineMax) break;
      end = stream.line.size();
    }
    text.append(prefix).append(stream.line, begin, end - begin).append("\n");
    begin = std::min(end + 1, stream.line.size());
  }
  stream.line.erase(0, begin);
  if (kept_ != nullptr) {
    kept_->append(text);
  } else {
    write_all(stream.to, text);
  }
}

void RankProcess::signal(int number) const {
  // The group may hold what the rank has started, after its own end too. Its number is taken for as
  // long as this object lives, see ended().
  if (process_ > 0) ::kill(-process_, number);
}

std::optional<int> RankProcess::ended() {
  if (code_) return code_;
  // It is not waited for to its end before the destructor: its number could be that of a stranger,
  // whom signals to the group would then reach.
  siginfo_t how{};
  const auto id = static_cast<id_t>(process_);
  if (::waitid(P_PID, id, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid != process_) {
    return std::nullopt;
  }
  by_signal_ = how.si_code != CLD_EXITED;
  code_ = by_signal_ ? 128 + how.si_status : how.si_status;
  pass_on(out_, true);
  pass_on(err_, true);
  return code_;
}

}  // namespace thinwire::app
