// Any bytes, any shape: decode refuses, or gives an update of which these are the only bytes.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "src/codec/codec.h"

using namespace thinwire;

// The first byte says how many tiles there are, one byte each says how large, one how many floats.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kSizes[] = {0, 1, 2, 3, 4, 7, 12, 64, 91, 1000, 1536, 4096, 5000, 65535};
  ByteView bytes = std::as_bytes(std::span(data, size));
  auto next = [&bytes]() -> std::size_t {
    if (bytes.empty()) return 0;
    const auto first = static_cast<std::size_t>(bytes[0]);
    bytes = bytes.subspan(1);
    return first;
  };
  std::vector<std::uint32_t> tiles(next() % 16);
  for (auto& tile : tiles) tile = kSizes[next() % std::size(kSizes)];
  const Shape shape{next(), tiles};

  const auto update = decode(bytes, shape);
  if (!update) return 0;
  const Bytes again = encode(*update, shape);
  TW_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  finite_floats(*update);
  return 0;
}
