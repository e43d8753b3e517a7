#include "src/codec/frame.h"

#include <string>
#include <utility>

#include "src/codec/bytes.h"
#include "thinwire/hash.h"

namespace thinwire {
namespace {

constexpr std::uint8_t kMagic = 0x74;  // 't'
constexpr int kIdMax = 0xffff;
constexpr std::size_t kChecksumAt = 44;

enum Field : std::size_t {
  kMagicAt = 0,
  kVersionAt = 1,
  kFlagsAt = 2,
  kPhaseAt = 3,
  kEpochAt = 4,
  kAgreementAt = 8,
  kRoundAt = 16,
  kStateHashAt = 24,
  kLengthAt = 32,
  kSiteAt = 40,
  kPartAt = 42,
};

// Over the header up to the checksum, then the payload.
std::uint64_t checksum(ByteView fields, ByteView payload) {
  return hash64(payload, hash64(fields));
}

Header header_of(ByteView frame) {
  const std::byte* at = frame.data();
  Header header;
  header.agreement = get_le<std::uint64_t>(at + kAgreementAt);
  header.round.epoch = get_le<std::uint32_t>(at + kEpochAt);
  header.round.number = get_le<std::uint64_t>(at + kRoundAt);
  header.round.phase = get_le<std::uint8_t>(at + kPhaseAt);
  header.site = get_le<std::uint16_t>(at + kSiteAt);
  header.part = get_le<std::uint16_t>(at + kPartAt);
  header.state_hash = get_le<std::uint64_t>(at + kStateHashAt);
  return header;
}

std::string differs(const char* what, std::uint64_t got, std::uint64_t expected) {
  return std::string(what) + " " + std::to_string(got) + ", expected " + std::to_string(expected);
}

// Is this a whole frame of this protocol? The reason why not, or nothing.
std::string damage(ByteView frame) {
  if (frame.size() < kFrameHeaderBytes) return "shorter than its header";
  const std::byte* at = frame.data();
  if (get_le<std::uint8_t>(at + kMagicAt) != kMagic) return "not a thinwire frame";
  const auto version = get_le<std::uint8_t>(at + kVersionAt);
  if (version != kProtocolVersion)
    return "protocol version " + std::to_string(version) + ", this program speaks " +
           std::to_string(kProtocolVersion) + "; run one version on all sites";
  if (get_le<std::uint8_t>(at + kFlagsAt) != 0) return "unknown flags";
  const auto length = get_le<std::uint64_t>(at + kLengthAt);
  const ByteView payload = frame.subspan(kFrameHeaderBytes);
  if (length != payload.size())
    return "says " + std::to_string(length) + " bytes of payload and has " +
           std::to_string(payload.size());
  if (get_le<std::uint64_t>(at + kChecksumAt) != checksum(frame.first(kChecksumAt), payload))
    return "checksum does not match: damaged on the way";
  return {};
}

// Is it the frame that the receiver waits for? The reason why not, or nothing.
std::string mismatch(const Header& header, const Expected& expected) {
  if (header.agreement != expected.agreement)
    return "another agreement: the sender runs another layout or settings";
  const Round& round = header.round;
  if (round.epoch != expected.round.epoch)
    return differs("epoch", round.epoch, expected.round.epoch);
  if (round.number != expected.round.number)
    return differs("round", round.number, expected.round.number);
  if (round.phase != expected.round.phase)
    return differs("phase", round.phase, expected.round.phase);
  if (header.site != expected.site)
    return "site " + std::to_string(header.site) + ", expected " + std::to_string(expected.site);
  if (header.part != expected.part)
    return "part " + std::to_string(header.part) + ", expected " + std::to_string(expected.part);
  return {};
}

}  // namespace

Bytes seal(const Header& header, ByteView payload) {
  TW_CHECK(header.round.phase <= 0xff);
  TW_CHECK(header.site >= 0 && header.site <= kIdMax);
  TW_CHECK(header.part >= 0 && header.part <= kIdMax);
  Bytes frame;
  frame.reserve(kFrameHeaderBytes + payload.size());
  put_le(frame, kMagic);
  put_le(frame, kProtocolVersion);
  put_le(frame, std::uint8_t{0});
  put_le(frame, static_cast<std::uint8_t>(header.round.phase));
  put_le(frame, header.round.epoch);
  put_le(frame, header.agreement);
  put_le(frame, header.round.number);
  put_le(frame, header.state_hash);
  put_le(frame, std::uint64_t{payload.size()});
  put_le(frame, static_cast<std::uint16_t>(header.site));
  put_le(frame, static_cast<std::uint16_t>(header.part));
  put_le(frame, checksum(frame, payload));
  append(frame, payload);
  return frame;
}

Result<Opened> open(ByteView frame, const Expected& expected) {
  if (std::string why = damage(frame); !why.empty()) return Result<Opened>::refuse(std::move(why));
  const Header header = header_of(frame);
  if (std::string why = mismatch(header, expected); !why.empty())
    return Result<Opened>::refuse(std::move(why));
  return Opened{header, frame.subspan(kFrameHeaderBytes)};
}

}  // namespace thinwire
