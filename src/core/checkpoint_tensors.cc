#include "src/core/checkpoint_tensors.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/hash.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kHeaderMax = 100u << 20;  // that of the format's own reader
constexpr std::size_t kLength = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kHashPrefix = "xxh3:";

std::array<std::byte, kLength> little_endian(std::uint64_t value) {
  std::array<std::byte, kLength> bytes;
  for (std::size_t i = 0; i < kLength; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

std::uint64_t type_bytes(const std::string& type) {
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  return type == "U8" || type == "I8" || type == "BOOL" ? 1 : 0;
}

std::string sizes(std::uint64_t expected, std::uint64_t found) {
  return std::to_string(expected) + " bytes expected, " + std::to_string(found) + " found";
}

// XXH3 of a tensor too large to hold, folded block by block.
constexpr std::size_t kHashBlock = 8u << 20;

std::uint64_t hash_of(ByteView bytes) {
  std::uint64_t hash = hash64(bytes.first(std::min(bytes.size(), kHashBlock)));
  for (std::size_t at = kHashBlock; at < bytes.size(); at += kHashBlock) {
    hash = hash_fold(hash, hash64(bytes.subspan(at, std::min(kHashBlock, bytes.size() - at))));
  }
  return hash;
}

}  // namespace

bool is_shallow(const std::string& json) {
  constexpr int kDepthMax = 16;
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text && c == '\\') ++i;
    if (c == '"' && !(in_text && json[i] != '"')) in_text = !in_text;
    if (in_text) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDepthMax) return false;
  }
  return true;
}

std::string hex(std::uint64_t value) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

Result<std::uint64_t> from_hex(const std::string& text) {
  std::uint64_t value = 0;
  const bool fits = text.size() == 16 && std::all_of(text.begin(), text.end(), [&](char c) {
                      const bool digit = c >= '0' && c <= '9';
                      if (!digit && (c < 'a' || c > 'f')) return false;
                      value =
                          value << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
                      return true;
                    });
  if (!fits) return Result<std::uint64_t>::refuse("'" + text + "' is no hash of 16 hex digits");
  return value;
}

TensorFileSummary write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                                std::map<std::string, std::string> metadata) {
  json header = json::object();
  std::uint64_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + tensor.bytes.size()}}};
    metadata[kHashPrefix + tensor.name] = hex(hash_of(tensor.bytes));
    at += tensor.bytes.size();
  }
  if (!metadata.empty()) header[kMetadata] = std::move(metadata);
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
  const auto length = little_endian(text.size());
  const ByteView text_bytes = std::as_bytes(std::span(text));
  std::vector<ByteView> pieces{length, text_bytes};
  for (const NamedTensor& tensor : tensors) pieces.push_back(tensor.bytes);
  write_file(path, pieces);
  return {kLength + text.size() + at, hash64(text_bytes)};
}

Result<TensorFile> TensorFile::open(const fs::path& path) {
  const auto refuse = [&](const std::string& why) {
    return Result<TensorFile>::refuse(path.filename().string() + ": " + why);
  };
  TensorFile opened;
  opened.path_ = path;
  opened.file_ = open_file(path);
  if (!opened.file_) return refuse("is missing or cannot be read");
  const std::uint64_t size = size_of(opened.file_);
  std::array<std::byte, kLength> length_bytes;
  if (size < kLength || !read_at(opened.file_, 0, length_bytes))
    return refuse("is cut short: at least 8 bytes expected, " + std::to_string(size) + " found");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLength; ++i)
    length |= std::to_integer<std::uint64_t>(length_bytes[i]) << (8 * i);
  if (length > kHeaderMax)
    return refuse("its header claims " + std::to_string(length) + " bytes, at most " +
                  std::to_string(kHeaderMax) + " can be");
  if (length > size - kLength)
    return refuse("is cut short in its header: " + sizes(kLength + length, size));
  std::string header(length, '\0');
  if (!read_at(opened.file_, kLength, std::as_writable_bytes(std::span(header))))
    return refuse("cannot be read");
  opened.summary_ = {size, hash64(std::as_bytes(std::span(header)))};
  if (const std::string why = opened.parse(header, kLength + length); !why.empty())
    return refuse(why);
  return Result<TensorFile>(std::move(opened));
}

std::string TensorFile::parse(const std::string& text, std::uint64_t data_begin) {
  if (!is_shallow(text)) return "its header is nested too deep";
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object()) return "its header is no JSON object";
  try {
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        metadata_ = value.get<std::map<std::string, std::string>>();
        continue;
      }
      Entry entry{.name = name, .type = value.at("dtype"), .shape = value.at("shape")};
      const std::vector<std::uint64_t> offsets = value.at("data_offsets");
      if (offsets.size() != 2 || offsets[0] > offsets[1])
        return "tensor " + name + " has impossible offsets";
      entry.begin = offsets[0];
      entry.bytes = offsets[1] - offsets[0];
      entries_.push_back(std::move(entry));
    }
  } catch (const json::exception& error) {
    return std::string("its header is damaged: ") + error.what();
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  std::uint64_t at = 0;
  for (Entry& entry : entries_) {
    std::uint64_t bytes = type_bytes(entry.type);
    if (bytes == 0) return "tensor " + entry.name + " is of the unknown type " + entry.type;
    for (const std::size_t extent : entry.shape) {
      if (extent != 0 && bytes > summary_.bytes / extent) bytes = ~std::uint64_t{0};
      if (bytes == ~std::uint64_t{0}) break;
      bytes *= extent;
    }
    if (bytes != entry.bytes || entry.begin != at)
      return "tensor " + entry.name + " does not lie where its shape says";
    at += entry.bytes;
    entry.begin += data_begin;
    if (const auto hash = metadata_.find(kHashPrefix + entry.name); hash != metadata_.end()) {
      const Result<std::uint64_t> value = from_hex(hash->second);
      if (!value) return "tensor " + entry.name + ": " + value.why();
      entry.hash = *value;
    }
  }
  if (data_begin + at != summary_.bytes)
    return (data_begin + at > summary_.bytes ? "is cut short in its data: " : "is too long: ") +
           sizes(data_begin + at, summary_.bytes);
  for (std::size_t i = 0; i < entries_.size(); ++i) by_name_[entries_[i].name] = i;
  return "";
}

const TensorFile::Entry* TensorFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::string TensorFile::verify() const {
  Bytes block;
  for (const Entry& entry : entries_) {
    std::uint64_t hash = 0;
    std::uint64_t at = 0;
    do {
      block.resize(std::min<std::uint64_t>(kHashBlock, entry.bytes - at));
      if (!read_at(file_, entry.begin + at, block))
        return path_.filename().string() + ": cannot be read";
      hash = at == 0 ? hash64(ByteView(block)) : hash_fold(hash, hash64(ByteView(block)));
      at += block.size();
    } while (at < entry.bytes);
    if (hash != entry.hash) {
      return path_.filename().string() + ": tensor " + entry.name + " is damaged: checksum " +
             hex(entry.hash) + " expected, " + hex(hash) + " found";
    }
  }
  return "";
}

void TensorFile::read(const Entry& entry, std::uint64_t offset, std::span<std::byte> into) const {
  TW_CHECK(offset + into.size() <= entry.bytes);
  if (!read_at(file_, entry.begin + offset, into))
    throw Error("cannot read " + path_.string() + " any more; is the disk still there?");
}

}  // namespace thinwire
