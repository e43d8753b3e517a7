// Any bytes: open refuses, or gives a header and a payload of which these are the only bytes.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/codec/bytes.h"
#include "src/codec/codec.h"
#include "src/codec/frame.h"
#include "thinwire/hash.h"

using namespace thinwire;

namespace {

constexpr std::size_t kChecksumAt = 44;

// A fuzzer does not guess checksums; half of its inputs get the right one.
Bytes with_checksum(ByteView bytes) {
  Bytes frame(bytes.begin(), bytes.end());
  if (frame.size() < kFrameHeaderBytes) return frame;
  const ByteView payload = ByteView(frame).subspan(kFrameHeaderBytes);
  Bytes sum;
  put_le(sum, hash64(payload, hash64(ByteView(frame).first(kChecksumAt))));
  std::copy(sum.begin(), sum.end(), frame.begin() + kChecksumAt);
  return frame;
}

Expected expected_of(ByteView frame) {
  const std::byte* at = frame.data();
  return {.agreement = get_le<std::uint64_t>(at + 8),
          .round = {.epoch = get_le<std::uint32_t>(at + 4),
                    .number = get_le<std::uint64_t>(at + 16),
                    .phase = get_le<std::uint8_t>(at + 3)},
          .site = get_le<std::uint16_t>(at + 40),
          .part = get_le<std::uint16_t>(at + 42)};
}

}  // namespace

// The first byte says whether the checksum is put right and whether the receiver expects this
// frame.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ByteView bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const Bytes frame = data[0] & 1 ? with_checksum(bytes) : Bytes(bytes.begin(), bytes.end());
  const bool awaited = (data[0] & 2) && frame.size() >= kFrameHeaderBytes;
  const auto opened = open(frame, awaited ? expected_of(frame) : Expected{});
  if (!opened) return 0;
  TW_CHECK(seal(opened->header, opened->payload) == frame);
  const std::vector<std::uint32_t> tiles = {64, 91, 4096};
  const Shape shape{20, tiles};
  if (const auto update = decode(opened->payload, shape)) {
    const Bytes again = encode(*update, shape);
    TW_CHECK(
        std::equal(again.begin(), again.end(), opened->payload.begin(), opened->payload.end()));
  }
  return 0;
}
