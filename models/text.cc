#include "models/text.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "models/counter_random.h"
#include "thinwire/error.h"

namespace thinwire {

Text::Text(std::vector<std::uint8_t> bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {
  if (bytes_.empty()) throw UsageError(name_ + " is empty; give a text to train on");
}

Text Text::read(const std::filesystem::path& path) {
  std::string name = "'";
  name += path.string() + "'";
  std::error_code trouble;
  const std::filesystem::file_status status = std::filesystem::status(path, trouble);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw UsageError("there is no file " + name + "; give the path of a text to train on");
  }
  if (trouble)
    throw UsageError("cannot read " + name + ": " + trouble.message() +
                     "; give the path of a text to train on");
  if (std::filesystem::is_directory(status)) {
    throw UsageError(name + " is a directory; give the path of one file");
  }
  if (std::filesystem::is_character_file(status)) {
    throw UsageError(name + " is a device without an end; give the path of a file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<std::uint8_t> bytes;
  char piece[65536];
  while (file) {
    file.read(piece, sizeof piece);
    bytes.insert(bytes.end(), piece, piece + file.gcount());
  }
  if (!file.eof())
    throw UsageError("cannot read " + name + ": " + std::strerror(errno) +
                     "; give the path of a text to train on");
  return Text(std::move(bytes), name);
}

Text Text::from_bytes(std::vector<std::uint8_t> bytes, std::string name) {
  return Text(std::move(bytes), std::move(name));
}

void Text::require(std::size_t context) const {
  const std::size_t needed = kHeldOutPart * (context + 1);
  if (bytes_.size() >= needed) return;
  throw UsageError(
      name_ + " has " + std::to_string(bytes_.size()) + " bytes, but a context of " +
      std::to_string(context) + " needs at least " + std::to_string(needed) + " (the last 1/" +
      std::to_string(kHeldOutPart) +
      " is held out and must hold one window); take a longer text or a shorter context");
}

std::size_t Text::sample(const Draw& draw, std::size_t context) const {
  TW_CHECK(train_size() > context);
  return random_bits(draw.seed, draw.step, draw.index) % (train_size() - context);
}

std::size_t Text::held_out(const HeldOut& window, std::size_t context) const {
  const std::size_t held_out_size = bytes_.size() - train_size();
  TW_CHECK(held_out_size > context && window.index < window.count);
  const std::size_t last = held_out_size - context - 1;  // the last window's start
  const std::size_t gaps = window.count > 1 ? window.count - 1 : 1;
  return train_size() + last * window.index / gaps;
}

}  // namespace thinwire
