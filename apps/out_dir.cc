#include "apps/out_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "thinwire/error.h"

namespace thinwire::app {
namespace {

namespace fs = std::filesystem;

std::string reason(int code) { return std::generic_category().message(code); }

std::string temporary_name(const std::string& name) {
  return "." + name + ".tmp-" + std::to_string(getpid());
}

// 0, or the errno of what went wrong.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0 || errno == EINVAL ? 0 : errno;  // EINVAL: nothing to sync, as on /dev
}

int write_file(const fs::path& path, std::string_view content) {
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  int trouble = write_all(file, content);
  // Some file systems report a full disk only here.
  if (::close(file) != 0 && trouble == 0) trouble = errno;
  return trouble;
}

// Unlinks what is still there under a temporary name when it goes out of scope.
class Temporaries {
 public:
  ~Temporaries() {
    for (const fs::path& path : paths_) ::unlink(path.c_str());
  }
  void add(fs::path path) { paths_.push_back(std::move(path)); }

 private:
  std::vector<fs::path> paths_;
};

[[noreturn]] void give_up(const fs::path& path, int code) {
  bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  throw Error("cannot write " + path.string() + ": " + reason(code) + "; " +
              (full ? "free some space or choose another --out" : "choose another --out"));
}

}  // namespace

void check_out_dir(const fs::path& dir) {
  auto refuse = [&](const std::string& why) {
    throw UsageError("--out " + dir.string() + " " + why + "; choose another directory");
  };
  std::error_code trouble;
  if (fs::exists(dir, trouble) && !fs::is_directory(dir, trouble)) refuse("is a file");
  fs::create_directories(dir, trouble);
  if (trouble) refuse("cannot be created: " + trouble.message());
  fs::path probe = dir / temporary_name("probe");
  int code = write_file(probe, "thinwire");
  ::unlink(probe.c_str());
  if (code != 0) refuse("cannot be written into: " + reason(code));
}

void write_files(const fs::path& dir, const std::vector<OutFile>& files) {
  Temporaries temporaries;
  for (const OutFile& file : files) {
    fs::path temporary = dir / temporary_name(file.name);
    temporaries.add(temporary);
    if (int code = write_file(temporary, file.content)) give_up(dir / file.name, code);
  }
  // What would stop a rename half-way is found before the first one.
  std::error_code ignored;
  for (const OutFile& file : files) {
    if (fs::is_directory(dir / file.name, ignored)) give_up(dir / file.name, EISDIR);
  }
  for (const OutFile& file : files) {
    fs::path temporary = dir / temporary_name(file.name);
    if (std::rename(temporary.c_str(), (dir / file.name).c_str()) != 0) {
      give_up(dir / file.name, errno);
    }
  }
}

}  // namespace thinwire::app
