#include "src/codec/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "src/codec/bytes.h"
#include "src/codec/dense.h"
#include "tests/codec_samples.h"

namespace thinwire {
namespace {

using test::Rng;

const Header kHeader = {.agreement = 0x0123456789abcdefu,
                        .round = {.epoch = 1, .number = 42, .phase = 0},
                        .site = 2,
                        .part = 1,
                        .state_hash = 0xfedcba9876543210u};

Expected expected_of(const Header& header) {
  return {header.agreement, header.round, header.site, header.part};
}

Bytes some_payload() {
  Rng rng(1);
  Bytes payload(100);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(rng());
  return payload;
}

std::string refusal(ByteView frame, const Expected& expected) {
  const auto opened = open(frame, expected);
  return opened ? "" : opened.why();
}

TEST(Frame, GivesBackHeaderAndPayload) {
  const Bytes payload = some_payload();
  Header header = kHeader;
  header.round = {.epoch = 0xffffffffu, .number = ~std::uint64_t{0}, .phase = 255};
  header.site = header.part = 65535;
  const Bytes frame = seal(header, payload);
  EXPECT_EQ(frame.size(), kFrameHeaderBytes + payload.size());
  const auto opened = open(frame, expected_of(header));
  ASSERT_TRUE(opened) << opened.why();
  EXPECT_EQ(opened->header, header);
  EXPECT_TRUE(
      std::equal(payload.begin(), payload.end(), opened->payload.begin(), opened->payload.end()));
}

TEST(Frame, CarriesNoPayloadToo) {
  const Bytes frame = seal(kHeader, {});
  EXPECT_EQ(frame.size(), kFrameHeaderBytes);
  EXPECT_TRUE(open(frame, expected_of(kHeader)));
}

TEST(Frame, RefusesEverySingleFlippedBit) {
  Bytes frame = seal(kHeader, some_payload());
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= std::byte(1 << bit % 8);
    ASSERT_FALSE(open(frame, expected_of(kHeader))) << bit;
    frame[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

TEST(Frame, RefusesEveryTruncationAndBytesAfterTheEnd) {
  Bytes frame = seal(kHeader, some_payload());
  for (std::size_t size = 0; size < frame.size(); ++size)
    ASSERT_FALSE(open(ByteView(frame).first(size), expected_of(kHeader))) << size;
  EXPECT_EQ(refusal(ByteView(frame).first(51), expected_of(kHeader)), "shorter than its header");
  frame.push_back(std::byte{0});
  EXPECT_EQ(refusal(frame, expected_of(kHeader)), "says 100 bytes of payload and has 101");
}

TEST(Frame, RefusesALengthOf2ToThe63) {
  Bytes frame = seal(kHeader, some_payload());
  frame[39] = std::byte{0x80};
  EXPECT_EQ(refusal(frame, expected_of(kHeader)),
            "says 9223372036854775908 bytes of payload and has 100");
}

TEST(Frame, NamesBothProtocolVersions) {
  Bytes frame = seal(kHeader, some_payload());
  frame[1] = std::byte{9};
  EXPECT_EQ(refusal(frame, expected_of(kHeader)),
            "protocol version 9, this program speaks 1; run one version on all sites");
}

TEST(Frame, SaysWhatIsNotAFrameAndWhatIsDamaged) {
  Bytes frame = seal(kHeader, some_payload());
  frame[0] ^= std::byte{1};
  EXPECT_EQ(refusal(frame, expected_of(kHeader)), "not a thinwire frame");
  frame[0] ^= std::byte{1};
  frame[60] ^= std::byte{1};
  EXPECT_EQ(refusal(frame, expected_of(kHeader)), "checksum does not match: damaged on the way");
}

TEST(Frame, SaysWhatItWasNotWaitingFor) {
  const Bytes frame = seal(kHeader, some_payload());
  auto why = [&](auto change) {
    Expected expected = expected_of(kHeader);
    change(expected);
    return refusal(frame, expected);
  };
  EXPECT_EQ(why([](Expected&) {}), "");
  EXPECT_EQ(why([](Expected& e) { e.agreement ^= 1; }),
            "another agreement: the sender runs another layout or settings");
  EXPECT_EQ(why([](Expected& e) { e.round.epoch = 3; }), "epoch 1, expected 3");
  EXPECT_EQ(why([](Expected& e) { e.round.number = 43; }), "round 42, expected 43");
  EXPECT_EQ(why([](Expected& e) { e.round.phase = 256; }), "phase 0, expected 256");
  EXPECT_EQ(why([](Expected& e) { e.site = -1; }), "site 2, expected -1");
  EXPECT_EQ(why([](Expected& e) { e.part = 0; }), "part 1, expected 0");
}

TEST(FrameDeathTest, WillNotSealWhatItCannotSay) {
  auto expect_abort = [](auto spoil) {
    Header header = kHeader;
    spoil(header);
    EXPECT_DEATH(seal(header, {}), "broken promise");
  };
  expect_abort([](Header& h) { h.round.phase = 256; });
  expect_abort([](Header& h) { h.site = -1; });
  expect_abort([](Header& h) { h.part = 65536; });
}

// ---- Frames written down for good: docs/wire_format.md and tests/golden/frames.

struct Golden {
  const char* name;
  test::Sample sample;
};

// The worked example of docs/wire_format.md.
Golden worked_example() {
  test::Sample sample{{64, 91, 64}, 0, {}};
  sample.update.picks = {.value_bits = 1,
                         .counts = {3, 3, 0},
                         .positions = {5, 17, 60, 0, 45, 46},
                         .codes = {0, 1, 1, 0, 0, 1},
                         .scales = {0.5f, -2.0f}};
  return {"worked_example", sample};
}

Golden votes() {
  Rng rng(21);
  test::Sample sample{std::vector<std::uint32_t>(64, 4096), 0, {}};
  sample.update = test::uniform_update(rng, sample.tiles, 8, 1);
  return {"votes_8_of_4096", sample};
}

Golden mixture() {
  Rng rng(22);
  test::Sample sample{{4096, 91, 1, 0, 1536, 7, 64, 64, 2}, 0, {}};
  sample.update.picks = test::random_picks(rng, sample.tiles, {300, 90, 1, 0, 0, 7, 40, 2, 1},
                                           {.value_bits = 16, .scales = true});
  return {"mixture_16_bits_scales", sample};
}

Golden dense(const char* name, bool noise) {
  Rng rng(23);
  test::Sample sample{{}, 200, {}};
  for (int i = 0; i < 200; ++i)
    sample.update.dense.push_back(noise
                                      ? std::bit_cast<float>(static_cast<std::uint32_t>(rng()) >> 2)
                                      : static_cast<float>(i % 3));
  return {name, sample};
}

std::vector<Golden> golden_frames() {
  Golden floats{"floats_and_dense", {{5, 5, 12}, 3, {}}};
  floats.sample.update = {.dense = {1.0f, -0.0f, 1e-40f},
                          .picks = {.value_bits = 32,
                                    .counts = {5, 0, 1},
                                    .positions = {0, 1, 2, 3, 4, 11},
                                    .codes = {float_code(1.5f), 0, 1, 2, 0xffffffffu, 7},
                                    .scales = {}}};
  Golden fewer{"fewer_dense", {{64}, 9, {}}};
  fewer.sample.update.dense = {1.0f, -2.5f};
  return {{"nothing", {{64, 64}, 8192, {}}},
          worked_example(),
          votes(),
          mixture(),
          dense("dense_raw", true),
          dense("dense_compressed", false),
          floats,
          fewer};
}

Bytes frame_of(const test::Sample& sample) {
  return seal(kHeader, encode(sample.update, sample.shape()));
}

Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Dense sections can be read by the zstd that wrote them only.
bool of_another_zstd(const test::Sample& sample, const Bytes& frame) {
  const std::size_t number = sample.update.dense.size() < sample.floats ? 8 : 0;
  return !sample.update.dense.empty() &&
         get_le<std::uint32_t>(frame.data() + kFrameHeaderBytes + 1 + number) != dense_version();
}

// THINWIRE_WRITE_GOLDEN=1 writes the files instead: for a new protocol version, not for a failure.
TEST(GoldenFrames, DecodeAndEncodeByteForByte) {
  for (const Golden& golden : golden_frames()) {
    const test::Sample& sample = golden.sample;
    const std::string path =
        std::string(THINWIRE_SOURCE_DIR "/tests/golden/frames/") + golden.name + ".bin";
    if (std::getenv("THINWIRE_WRITE_GOLDEN") != nullptr) {
      const Bytes frame = frame_of(sample);
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(frame.data()),
                 static_cast<std::streamsize>(frame.size()));
    }
    const Bytes frame = read_file(path);
    const auto opened = open(frame, expected_of(kHeader));
    ASSERT_TRUE(opened) << golden.name << ": " << opened.why();
    const auto update = decode(opened->payload, sample.shape());
    if (of_another_zstd(sample, frame)) {
      EXPECT_FALSE(update) << golden.name;
      continue;
    }
    ASSERT_TRUE(update) << golden.name << ": " << update.why();
    EXPECT_EQ(*update, sample.update) << golden.name;
    EXPECT_EQ(seal(opened->header, encode(*update, sample.shape())), frame) << golden.name;
  }
}

std::string hex_lines(ByteView bytes) {
  std::string text;
  std::array<char, 32> piece;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (at % 16 == 0) {
      std::snprintf(piece.data(), piece.size(), "%s%02zx:", at ? "\n" : "", at);
      text += piece.data();
    }
    std::snprintf(piece.data(), piece.size(), " %02x", static_cast<unsigned>(bytes[at]));
    text += piece.data();
  }
  return text;
}

TEST(WireFormatDocument, ShowsTheBytesOfItsExample) {
  std::ifstream in(THINWIRE_SOURCE_DIR "/docs/wire_format.md");
  const std::string document{std::istreambuf_iterator<char>(in), {}};
  const std::string example = hex_lines(frame_of(worked_example().sample));
  EXPECT_NE(document.find("```\n" + example + "\n```"), std::string::npos)
      << "docs/wire_format.md should show\n"
      << example;
}

}  // namespace
}  // namespace thinwire
