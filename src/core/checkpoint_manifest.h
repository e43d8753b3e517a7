// manifest.json of a checkpoint: what it holds, and a checksum that binds every file. Judged like
// any bytes from outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/core/checkpoint_tensors.h"
#include "thinwire/checkpoint.h"

namespace thinwire {

inline constexpr int kCheckpointVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";

struct Manifest {
  std::uint64_t step = 0;
  std::uint64_t repaired_before = 0;
  int sites = 1;
  int saved_sites = 1;
  int ranks = 1;
  bool whole_blocks = false;  // cut between blocks, not between rows of tiles
  Chunking chunking = Chunking::padded;
  std::vector<ParameterSpec> parameters;
  std::vector<StateSpec> states;
  RunSettings run;
  std::map<std::string, TensorFileSummary> files;  // by name
};

// "site-0.rank-1.safetensors"
std::string part_file(int site, int rank);

std::string to_text(const Manifest& manifest);
void write_manifest(const std::filesystem::path& dir, const Manifest& manifest);
Result<Manifest> parse_manifest(const std::string& text);
Result<Manifest> read_manifest(const std::filesystem::path& dir);

}  // namespace thinwire
