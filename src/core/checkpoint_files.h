// Files of a checkpoint: written whole and synced, read at any place; the directory's lock. Errors
// are thrown with the path and what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "thinwire/types.h"

namespace thinwire {

class FileHandle {
 public:
  FileHandle() = default;
  explicit FileHandle(int number) : number_(number) {}
  FileHandle(FileHandle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileHandle();
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Creates `path`, writes the pieces one after another and waits for the disk. The file appears
// under its name when it is whole.
void write_file(const std::filesystem::path& path, std::span<const ByteView> pieces);
void sync_directory(const std::filesystem::path& dir);
// `from` takes the place of `to`, a directory that may exist, at once.
void replace_directory(const std::filesystem::path& from, const std::filesystem::path& to);

// For reading; not open where there is no such file.
FileHandle open_file(const std::filesystem::path& path);
std::uint64_t size_of(const FileHandle& file);
// False: the file ends before, or cannot be read.
bool read_at(const FileHandle& file, std::uint64_t offset, std::span<std::byte> into);

// Held for as long as the handle lives. Throws UsageError when another process holds it.
FileHandle lock_directory(const std::filesystem::path& dir);

}  // namespace thinwire
