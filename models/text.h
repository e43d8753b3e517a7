// The text a model trains on: the bytes of a file as tokens 0 .. 255. The last twentieth is held
// out for evaluation and is never trained on. A value, constant after it is made: safe from any
// thread.
//
// A window of context T is T + 1 consecutive bytes: T inputs and, one further, T targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace thinwire {

class Text {
 public:
  // Throws UsageError when the file is missing, a directory, a device, empty or unreadable.
  static Text read(const std::filesystem::path& path);
  // `name` is for messages. Throws UsageError when there are no bytes.
  static Text from_bytes(std::vector<std::uint8_t> bytes, std::string name = "text");

  // Throws UsageError that says how many bytes are needed unless one training window and one
  // held-out window of `context` fit. The functions below need this to hold.
  void require(std::size_t context) const;

  // Which training window: sample `index` of the whole run's batch of a step.
  struct Draw {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint64_t index = 0;
  };
  // Where that window starts: uniform over all training windows and a function of the draw alone,
  // so that every method and every number of ranks sees the same stream.
  std::size_t sample(const Draw& draw, std::size_t context) const;

  // Where window `index` of `count` fixed, evenly spread held-out windows starts.
  struct HeldOut {
    std::size_t index = 0;
    std::size_t count = 1;
  };
  std::size_t held_out(const HeldOut& window, std::size_t context) const;

  std::span<const std::uint8_t> bytes() const { return bytes_; }
  std::size_t train_size() const { return bytes_.size() - bytes_.size() / kHeldOutPart; }
  const std::string& name() const { return name_; }

 private:
  static constexpr std::size_t kHeldOutPart = 20;

  Text(std::vector<std::uint8_t> bytes, std::string name);

  std::vector<std::uint8_t> bytes_;
  std::string name_;
};

}  // namespace thinwire
