// The directory that results are written into: judged before hours of work, written whole or not at
// all.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace thinwire::app {

// Creates the directory where it is missing. Throws UsageError when it is a file, cannot be created
// or cannot be written into.
void check_out_dir(const std::filesystem::path& dir);

struct OutFile {
  std::string name;
  std::string content;
};

// Writes all files under temporary names and renames them when the last one is safely on the disk.
// Throws Error naming the file and what to do; no temporary or half-written file stays behind.
void write_files(const std::filesystem::path& dir, const std::vector<OutFile>& files);

}  // namespace thinwire::app
