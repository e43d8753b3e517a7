#include "src/core/checkpoint_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "thinwire/error.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void give_up(const fs::path& path, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  throw Error("cannot write " + path.string() + ": " + std::generic_category().message(code) +
              "; " + (full ? "free some space" : "choose another directory to save into"));
}

int write_all(int file, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

FileHandle::~FileHandle() {
  if (number_ >= 0) ::close(number_);
}

void write_file(const fs::path& path, std::span<const ByteView> pieces) {
  const fs::path temporary = path.string() + ".tmp";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) give_up(path, errno);
  int trouble = 0;
  for (const ByteView piece : pieces) {
    if (trouble == 0) trouble = write_all(file, piece);
  }
  if (trouble == 0 && ::fsync(file) != 0) trouble = errno;
  // Some file systems report a full disk only here.
  if (::close(file) != 0 && trouble == 0) trouble = errno;
  if (trouble == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) trouble = errno;
  if (trouble == 0) return;
  ::unlink(temporary.c_str());
  give_up(path, trouble);
}

void sync_directory(const fs::path& dir) {
  const FileHandle handle(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle || ::fsync(handle.number()) != 0) give_up(dir, errno);
}

void replace_directory(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) give_up(to, errno);
  // One call swaps the two, so that one of them is there at any time.
  fs::path old = from;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) give_up(to, errno);
    old = from.string() + ".old";  // a file system that cannot: for a moment neither is there
    if (std::rename(to.c_str(), old.c_str()) != 0) give_up(to, errno);
    if (std::rename(from.c_str(), to.c_str()) != 0) give_up(to, errno);
  }
  sync_directory(to.parent_path());
  std::error_code ignored;
  fs::remove_all(old, ignored);
}

FileHandle open_file(const fs::path& path) {
  return FileHandle(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::uint64_t size_of(const FileHandle& file) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

bool read_at(const FileHandle& file, std::uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got =
        ::pread(file.number(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

FileHandle lock_directory(const fs::path& dir) {
  const fs::path path = dir / "lock";
  FileHandle lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock) {
    throw UsageError("cannot write into " + dir.string() + ": " +
                     std::generic_category().message(errno) +
                     "; choose another directory to save into");
  }
  if (::flock(lock.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      throw UsageError("cannot lock " + path.string() + ": " +
                       std::generic_category().message(errno) +
                       "; choose another directory to save into");
    }
    throw UsageError("another run saves into " + dir.string() +
                     "; give each run a directory of its own");
  }
  return lock;
}

}  // namespace thinwire
