// Files of tensors in the safetensors format: 8 bytes with the length of a JSON header, the header,
// the data, nothing else. Ours keep XXH3 of every tensor in the header's __metadata__.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/core/checkpoint_files.h"
#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire {

struct NamedTensor {
  std::string name;
  std::string type;  // F32 or U8
  std::vector<std::size_t> shape;
  ByteView bytes;
};

struct TensorFileSummary {
  std::uint64_t bytes = 0;        // of the file
  std::uint64_t header_hash = 0;  // which binds the tensors' hashes, which bind the data
  bool operator==(const TensorFileSummary&) const = default;
};

TensorFileSummary write_tensors(const std::filesystem::path& path,
                                const std::vector<NamedTensor>& tensors,
                                std::map<std::string, std::string> metadata = {});

// Opened without a look at its data. Judges what it reads: lengths, offsets, types, names.
class TensorFile {
 public:
  struct Entry {
    std::string name;
    std::string type;
    std::vector<std::size_t> shape;
    std::uint64_t begin = 0;  // in the file
    std::uint64_t bytes = 0;
    std::uint64_t hash = 0;  // as the header has it; 0: it has none
  };

  static Result<TensorFile> open(const std::filesystem::path& path);

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& name) const;  // nullptr: there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const TensorFileSummary& summary() const { return summary_; }
  const std::filesystem::path& path() const { return path_; }
  // Reads every tensor and compares its hash; what is wrong, or nothing.
  std::string verify() const;
  // Bytes of the tensor from `offset`; throws Error when the disk does not give them.
  void read(const Entry& entry, std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::string parse(const std::string& header, std::uint64_t data_begin);  // why not, or nothing

  std::filesystem::path path_;
  FileHandle file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> by_name_;
  std::map<std::string, std::string> metadata_;
  TensorFileSummary summary_;
};

// Is there no JSON value nested deeper than ours ever are? What is, costs a parser its stack.
bool is_shallow(const std::string& json);
std::string hex(std::uint64_t value);  // 16 digits
Result<std::uint64_t> from_hex(const std::string& text);

}  // namespace thinwire
