#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "transports/hub_messages_internal.h"

namespace {

// Asked of the allocator by this thread since it was last set to zero.
thread_local std::size_t taken_bytes = 0;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  taken_bytes += size;
  if (void* at = std::malloc(size)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }

namespace thinwire::hub {
namespace {

Bytes run_of(std::size_t size, std::uint64_t seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte(test::mix(seed + i) & 255);
  return bytes;
}

const Slot kSlot{{3, 0x0102030405060708, 255}, Kind::reduce, kPartsMax - 1};

std::vector<Message> samples() {
  const Slot gather{{1, 9, 2}, Kind::gather, 3};
  std::vector<std::uint32_t> everybody;
  std::vector<SharedFrame> frames;
  for (std::uint32_t site = 0; site < kSitesMax; ++site) {
    everybody.push_back(site);
    frames.push_back({static_cast<int>(site), run_of(site % 3)});
  }
  const Slot ahead{{0, 12, 0}, Kind::gather, 0};
  return {
      Hello{.run = "r", .site = "a"},
      Hello{.run = std::string(kRunMax, '~'),
            .site = std::string(kNameMax, 'Z'),
            .process = ~std::uint64_t{0},
            .agreement = 1,
            .agreed = std::string(kTextMax, '\n'),
            .parts = kPartsMax,
            .next_round = 12,
            .ahead = {ahead, {{0, 12, 0}, Kind::reduce, 0}, {{0, 12, 1}, Kind::gather, 0}},
            .recent = std::vector<RoundHash>(kRecentMax, {kSlot, 77}),
            .number = kSitesMax - 1,
            .epoch = 7,
            .hubs = 3,
            .taking = 12,
            .taken = 11,
            .gives = false},
      Post{},
      Post{gather, run_of(1)},
      Post{kSlot, run_of(10'000)},
      Want{kSlot},
      Bundle{},
      Bundle{gather, {{0, {}}, {7, run_of(5)}}, {1, 2, 1023}},
      Bundle{kSlot, {{0, run_of(8)}}, {0, 1}},
      Ping{~std::uint64_t{0}, 3, 4},
      Bye{},
      AskStatus{},
      Welcome{.sites = 1},
      Welcome{kSitesMax - 1, kSitesMax, ~std::uint64_t{0}, 5, 6, 7, 8},
      Refused{},
      Refused{std::string(kTextMax, 'x'), false},
      Taken{kSlot},
      Closed{},
      Closed{gather, true, frames, {}},
      Closed{gather, false, {}, everybody},
      Closed{kSlot, true, {{0, run_of(64)}}, {4}},
      Missing{gather},
      Pong{},
      Pong{9, false, 1, 2, false},
      Fetch{1, kPartsMax - 1, ~std::uint64_t{0}, 4},
      Chunk{},
      Chunk{.step = 5,
            .part = 1,
            .chunk = 2,
            .site = 3,
            .state_bytes = 2 * kChunkBytes + 7,
            .state_hash = 8,
            .hash = 9,
            .bytes = run_of(7)},
      NoState{5},
      Snapshot{~std::uint64_t{0}},
      Status{},
      Status{std::string(kStatusMax, '{')},
  };
}

bool same(const Bytes& a, const Bytes& b) { return a == b; }

TEST(HubMessages, ComeBackAsTheyWere) {
  for (const Message& message : samples()) {
    EXPECT_EQ(fault(message), "");
    const Bytes bytes = encode(message);
    EXPECT_EQ(bytes.size(), encoded_size(message));
    const auto back = decode(bytes);
    ASSERT_TRUE(back) << message.index() << ": " << back.why();
    EXPECT_EQ(back->index(), message.index());
    EXPECT_TRUE(same(encode(*back), bytes)) << message.index();
  }
}

TEST(HubMessages, CarryEveryField) {
  const auto hello = decode(encode(samples()[1]));
  const auto& h = std::get<Hello>(*hello);
  EXPECT_EQ(h.run, std::string(kRunMax, '~'));
  EXPECT_EQ(h.site, std::string(kNameMax, 'Z'));
  EXPECT_EQ(h.process, ~std::uint64_t{0});
  EXPECT_EQ(h.agreement, 1u);
  EXPECT_EQ(h.agreed.size(), kTextMax);
  EXPECT_EQ(h.parts, kPartsMax);
  EXPECT_EQ(h.next_round, 12u);
  EXPECT_EQ(h.ahead.size(), 3u);
  EXPECT_EQ(h.ahead[2], (Slot{{0, 12, 1}, Kind::gather, 0}));
  EXPECT_EQ(h.number, kSitesMax - 1);
  EXPECT_EQ(h.epoch, 7u);
  const auto closed = decode(encode(Closed{kSlot, true, {{0, run_of(64)}}, {4, 6}}));
  const auto& c = std::get<Closed>(*closed);
  EXPECT_EQ(c.slot, kSlot);
  EXPECT_TRUE(c.included);
  EXPECT_EQ(c.frames.at(0).bytes, run_of(64));
  EXPECT_EQ(c.absent, (std::vector<std::uint32_t>{4, 6}));
  const auto refused = decode(encode(Refused{"why", false}));
  EXPECT_EQ(std::get<Refused>(*refused).why, "why");
  EXPECT_FALSE(std::get<Refused>(*refused).final);
}

TEST(HubMessages, AreLittleEndian) {
  const Bytes snapshot = encode(Snapshot{0x0102});
  const std::vector<int> expected{0x75, 3, 18, 2, 1, 0, 0, 0, 0, 0, 0};
  ASSERT_EQ(snapshot.size(), expected.size());
  for (std::size_t i = 0; i < snapshot.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(snapshot[i]), expected[i]);
}

TEST(HubMessages, CutShortAtAnyByteAreRefused) {
  for (const Message& message : samples()) {
    const Bytes bytes = encode(message);
    const std::size_t stride = bytes.size() > 4'000 ? 997 : 1;
    for (std::size_t size = 0; size < bytes.size(); size += stride) {
      EXPECT_FALSE(decode(ByteView(bytes).first(size))) << message.index() << " at " << size;
    }
  }
}

TEST(HubMessages, WithBytesBehindThemAreRefused) {
  for (const Message& message : samples()) {
    Bytes bytes = encode(message);
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << message.index();
  }
}

// What is accepted in spite of a flipped bit is another message, and that one's only encoding.
TEST(HubMessages, WithAnyBitFlippedAreRefusedOrCanonicalAndTakeNoMemory) {
  for (const Message& message : samples()) {
    const Bytes bytes = encode(message);
    // Every bit of the front, where the counts are; a sample of long frames.
    const std::size_t stride = bytes.size() > 4'000 ? 8191 : 1;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += bit < 1600 ? 1 : stride) {
      Bytes flipped = bytes;
      flipped[bit / 8] ^= std::byte(1 << (bit % 8));
      taken_bytes = 0;
      const auto decoded = decode(flipped);
      EXPECT_LE(taken_bytes, 4 * bytes.size() + 4096) << message.index() << " bit " << bit;
      if (decoded) {
        EXPECT_TRUE(same(encode(*decoded), flipped)) << message.index() << " bit " << bit;
      }
    }
  }
}

TEST(HubMessages, PromiseOfManyBytesTakesNoMemory) {
  for (const Message& message :
       {Message(Post{kSlot, run_of(16)}), Message(Bundle{kSlot, {{0, run_of(16)}}, {1}}),
        Message(Hello{.run = "run", .site = "site"})}) {
    const Bytes bytes = encode(message);
    for (std::size_t at = 3; at + 8 <= bytes.size(); ++at) {
      for (const int filler : {0x7f, 0x80, 0xff}) {
        Bytes hostile = bytes;
        for (std::size_t i = 0; i < 8; ++i) hostile[at + i] = std::byte(filler);
        taken_bytes = 0;
        (void)decode(hostile);
        EXPECT_LE(taken_bytes, 4096u) << message.index() << " at " << at;
      }
    }
  }
}

TEST(HubMessages, RandomBytesAreRefused) {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Bytes bytes = run_of(test::mix(seed) % 120, seed);
    if (bytes.size() > 2) {
      bytes[0] = std::byte{0x75};
      bytes[1] = std::byte{1};
      bytes[2] = std::byte(1 + seed % 15);
    }
    if (const auto decoded = decode(bytes)) {
      EXPECT_TRUE(same(encode(*decoded), bytes));
    }
  }
}

TEST(HubMessages, OfAnotherVersionAreNamedAndAnsweredInWordsThatAllVersionsRead) {
  Bytes bytes = encode(Ping{1});
  EXPECT_FALSE(other_version(bytes));
  bytes[1] = std::byte{1};
  EXPECT_TRUE(other_version(bytes));
  const auto decoded = decode(bytes);
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.why().find("1 there, 3 here"), std::string::npos) << decoded.why();
  const Bytes refused = encode(Refused{"no"});
  EXPECT_EQ(refused[1], std::byte{0});
  EXPECT_FALSE(other_version(refused));
  EXPECT_FALSE(other_version(Bytes(10)));
}

TEST(HubMessages, WithImpossibleValuesHaveAFault) {
  const Slot slot;
  const std::vector<Message> wrong = {
      Hello{.run = "", .site = "a"},
      Hello{.run = "line\nbreak", .site = "a"},
      Hello{.run = std::string(kRunMax + 1, 'a'), .site = "a"},
      Hello{.run = "r", .site = ""},
      Hello{.run = "r", .site = "a b"},
      Hello{.run = "r", .site = std::string(kNameMax + 1, 'a')},
      Hello{.run = "r", .site = "a", .agreed = std::string(kTextMax + 1, 'a')},
      Hello{.run = "r", .site = "a", .parts = 0},
      Hello{.run = "r", .site = "a", .parts = kPartsMax + 1},
      Hello{.run = "r", .site = "a", .next_round = 1, .ahead = {slot}},
      Hello{.run = "r", .site = "a", .ahead = {slot, slot}},
      Hello{.run = "r", .site = "a", .ahead = {{{0, 0, 0}, Kind::gather, 1}}},
      Hello{.run = "r", .site = "a", .number = kSitesMax},
      Post{{{0, 0, 0}, Kind::gather, kPartsMax}, {}},
      Want{{{0, 0, kPhaseMax + 1}, Kind::gather, 0}},
      Bundle{slot, {{1, {}}, {1, {}}}, {}},
      Bundle{slot, {{1, {}}}, {1}},
      Bundle{slot, {{-1, {}}}, {}},
      Bundle{{{}, Kind::reduce, 0}, {{1, {}}}, {}},
      Bundle{{{}, Kind::reduce, 0}, {{0, {}}, {1, {}}}, {}},
      Closed{slot, false, {}, {2, 1}},
      Closed{slot, false, {}, {kSitesMax}},
      Welcome{.site = 2, .sites = 2},
      Welcome{.site = 0, .sites = kSitesMax + 1},
      Refused{std::string(kTextMax + 1, 'a')},
      Status{std::string(kStatusMax + 1, 'a')},
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) EXPECT_NE(fault(wrong[i]), "") << i;
}

}  // namespace
}  // namespace thinwire::hub
