// The state of a run in transfer, at both ends: copies that are given, chunks that are taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "thinwire/hash.h"
#include "transports/zmq_state_internal.h"

namespace thinwire::hub {
namespace {

constexpr double kPeerTimeout = 10.0;

Bytes some_bytes(std::size_t size, std::uint64_t seed = 1) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(test::mix(seed + i / 7));
  return bytes;
}

void give(SiteState& donor, std::uint32_t part, Bytes state) {
  const std::uint64_t hash = hash64(ByteView(state));
  donor.give(part, std::move(state), hash);
}

// A donor that has a copy of these parts as they are at the start of that step.
SiteState donor_of(std::uint64_t step, const std::vector<Bytes>& parts) {
  const auto count = static_cast<std::uint32_t>(parts.size());
  SiteState donor(count, kPeerTimeout);
  donor.snapshot(step);
  for (std::uint32_t part = 0; part < count; ++part) {
    donor.at_step(part, step);
    give(donor, part, parts[part]);
  }
  return donor;
}

std::vector<Fetch> requests_of(SiteState& taker, double now) {
  std::vector<Fetch> fetches;
  while (const auto message = taker.next(now)) {
    if (const auto* fetch = std::get_if<Fetch>(&*message)) fetches.push_back(*fetch);
  }
  return fetches;
}

std::vector<Chunk> answers_of(SiteState& donor, double now) {
  std::vector<Chunk> chunks;
  while (const auto message = donor.next(now)) {
    if (const auto* chunk = std::get_if<Chunk>(&*message)) chunks.push_back(*chunk);
  }
  return chunks;
}

std::optional<std::uint64_t> refusal_of(SiteState& state, double now) {
  const auto message = state.next(now);
  if (!message || !std::holds_alternative<NoState>(*message)) return std::nullopt;
  return std::get<NoState>(*message).step;
}

// Question and answer until nothing moves any more.
void transfer(SiteState& donor, SiteState& taker, double& now) {
  for (bool moved = true; moved; now += 0.01) {
    for (const Fetch& fetch : requests_of(taker, now)) donor.fetch(fetch);
    const std::vector<Chunk> chunks = answers_of(donor, now);
    moved = !chunks.empty();
    for (const Chunk& chunk : chunks) taker.chunk(chunk, now);
  }
}

TEST(Takeover, BringsStatesOfAnyLength) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kChunkBytes - 1, kChunkBytes,
                                 kChunkBytes + 1, 3 * kChunkBytes, 40 * kChunkBytes + 5}) {
    const std::vector<Bytes> parts{some_bytes(size), some_bytes(1000, 2), {}};
    SiteState donor = donor_of(7, parts);
    SiteState taker(3, kPeerTimeout);
    double now = 1.0;
    taker.take_over(7, now);
    EXPECT_FALSE(taker.complete());
    transfer(donor, taker, now);
    ASSERT_TRUE(taker.complete()) << size;
    EXPECT_EQ(taker.progress(), 1.0);
    EXPECT_EQ(taker.bytes_received(), size + 1000);
    EXPECT_EQ(taker.take(), parts) << size;
    EXPECT_EQ(taker.taking(), kNoStep);
    EXPECT_FALSE(taker.next(now));
  }
}

TEST(Takeover, DamagedRepeatedAndUnaskedChunksChangeNothing) {
  const std::vector<Bytes> parts{some_bytes(10 * kChunkBytes)};
  SiteState donor = donor_of(7, parts);
  SiteState taker(1, kPeerTimeout);
  double now = 1.0;
  taker.take_over(7, now);
  std::vector<Chunk> late;
  while (!taker.complete() && now < 100.0) {
    for (const Fetch& fetch : requests_of(taker, now)) donor.fetch(fetch);
    std::vector<Chunk> chunks = answers_of(donor, now);
    std::reverse(chunks.begin(), chunks.end());
    for (const Chunk& chunk : chunks) {
      Chunk other = chunk;
      other.bytes[3] ^= std::byte{1};
      taker.chunk(other, now);  // damaged
      other = chunk;
      other.part = 1;
      taker.chunk(other, now);  // of a part that is not there
      other = chunk;
      other.step = 8;
      taker.chunk(other, now);
      taker.chunk(chunk, now);
      taker.chunk(chunk, now);
      late.push_back(chunk);
      for (const Chunk& one : late) taker.chunk(one, now);
    }
    now += 0.01;
  }
  EXPECT_EQ(taker.bytes_received(), 10 * kChunkBytes);
  EXPECT_EQ(taker.take(), parts);
  for (const Chunk& one : late) taker.chunk(one, now);
  EXPECT_EQ(taker.progress(), 0.0);
}

// All chunks are well, the whole is not what was announced.
TEST(Takeover, AStateWithAWrongHashIsTakenFromTheBeginning) {
  const std::vector<Bytes> parts{some_bytes(5 * kChunkBytes + 1)};
  SiteState liar(1, kPeerTimeout);
  liar.snapshot(7);
  liar.at_step(0, 7);
  liar.give(0, parts[0], 12345);
  SiteState taker(1, kPeerTimeout);
  double now = 1.0;
  taker.take_over(7, now);
  for (int i = 0; i < 20; ++i, now += 0.01) {
    for (const Fetch& fetch : requests_of(taker, now)) liar.fetch(fetch);
    for (const Chunk& chunk : answers_of(liar, now)) taker.chunk(chunk, now);
    EXPECT_FALSE(taker.complete());
  }
  SiteState donor = donor_of(7, parts);
  now += 2 * kPeerTimeout;  // the liar answers no more
  transfer(donor, taker, now);
  ASSERT_TRUE(taker.complete());
  EXPECT_EQ(taker.take(), parts);
}

// Two donors whose states differ: chunks are never mixed, and the one that is left is enough.
TEST(Takeover, OneOfTwoDonorsWithDifferentStatesIsEnough) {
  const std::vector<Bytes> one{some_bytes(20 * kChunkBytes)}, other{some_bytes(9 * kChunkBytes, 3)};
  SiteState first = donor_of(7, one), second = donor_of(7, other);
  SiteState taker(1, kPeerTimeout);
  double now = 1.0;
  taker.take_over(7, now);
  const auto ask = [&](SiteState& donor) {
    for (const Fetch& fetch : requests_of(taker, now)) donor.fetch(fetch);
    for (const Chunk& chunk : answers_of(donor, now)) taker.chunk(chunk, now);
    now += 0.5;
  };
  ask(first);
  ask(second);
  ask(first);
  EXPECT_GT(taker.progress(), 0.0);
  for (int i = 0; i < 200 && !taker.complete(); ++i) ask(second);  // the first one has died
  ASSERT_TRUE(taker.complete());
  EXPECT_EQ(taker.take(), other);
}

TEST(Takeover, RequestsAreRepeatedWhenTheyAreLostAndNotBefore) {
  SiteState taker(1, kPeerTimeout);
  taker.take_over(7, 1.0);
  ASSERT_EQ(requests_of(taker, 1.0).size(), 1u) << "how long the state is says its first chunk";
  EXPECT_EQ(requests_of(taker, 1.9).size(), 0u);
  EXPECT_EQ(requests_of(taker, 2.1).size(), 1u);
  taker.take_over(7, 2.2);  // welcome again: what was under way is lost
  EXPECT_EQ(requests_of(taker, 2.2).size(), 1u);
}

TEST(Takeover, TheWindowGrowsWithinItsBounds) {
  const std::vector<Bytes> parts{Bytes(2000 * kChunkBytes)};
  SiteState donor = donor_of(7, parts);
  SiteState taker(1, kPeerTimeout);
  double now = 1.0;
  taker.take_over(7, now);
  std::size_t most = 0;
  std::set<std::uint64_t> asked;
  for (; !taker.complete() && now < 100.0; now += 0.02) {
    const std::vector<Fetch> fetches = requests_of(taker, now);
    most = std::max(most, fetches.size());
    for (const Fetch& fetch : fetches) {
      EXPECT_TRUE(asked.insert(fetch.chunk).second) << "twice";
      donor.fetch(fetch);
    }
    for (const Chunk& chunk : answers_of(donor, now)) taker.chunk(chunk, now + 0.01);
  }
  EXPECT_TRUE(taker.complete());
  EXPECT_GT(most, 16u);
  EXPECT_LE(most, 257u);
}

TEST(Takeover, ADonorGivesNoPartBeforeAllAreThere) {
  SiteState donor(2, kPeerTimeout);
  donor.snapshot(7);
  donor.at_step(0, 6);
  donor.at_step(1, 7);
  EXPECT_FALSE(donor.wanted(0)) << "not in that step";
  ASSERT_TRUE(donor.wanted(1));
  give(donor, 1, some_bytes(10));
  EXPECT_FALSE(donor.wanted(1));
  donor.fetch({7, 1, 0, 3});
  EXPECT_FALSE(donor.next(1.0));
  donor.at_step(0, 7);
  give(donor, 0, some_bytes(10));
  ASSERT_EQ(answers_of(donor, 1.0).size(), 1u);
  donor.fetch({7, 1, 9, 3});  // beyond its end
  donor.fetch({7, 2, 0, 3});  // no such part
  EXPECT_FALSE(donor.next(1.0));
}

TEST(Takeover, StepsThatArePassedAreRefused) {
  SiteState donor(2, kPeerTimeout);
  donor.at_step(0, 8);
  donor.at_step(1, 7);
  donor.snapshot(7);
  EXPECT_EQ(refusal_of(donor, 1.0), 7u) << "one rank is beyond it";
  donor.snapshot(9);
  EXPECT_FALSE(donor.next(1.0));
  donor.at_step(0, 9);
  give(donor, 0, some_bytes(10));
  donor.at_step(0, 10);
  EXPECT_FALSE(donor.next(1.0)) << "the other rank may still come";
  donor.at_step(1, 10);
  EXPECT_EQ(refusal_of(donor, 1.0), 9u) << "it has gone past without a copy";
  for (int i = 0; i < 5; ++i) donor.fetch({9, 0, 0, 3});
  EXPECT_EQ(refusal_of(donor, 1.0), 9u);
  EXPECT_FALSE(donor.next(1.0)) << "once is enough";
}

TEST(Takeover, ADonorKeepsTwoCopiesForAsLongAsTheyAreAskedFor) {
  SiteState donor = donor_of(7, {some_bytes(100)});
  donor.fetch({7, 0, 0, 3});
  donor.fetch({7, 0, 0, 4});  // another taker
  EXPECT_EQ(answers_of(donor, 1.0).size(), 2u);
  donor.snapshot(9);
  donor.at_step(0, 9);
  give(donor, 0, some_bytes(100, 2));
  donor.fetch({9, 0, 0, 3});
  EXPECT_EQ(answers_of(donor, 50.0).size(), 1u);
  EXPECT_FALSE(donor.next(60.0));
  EXPECT_FALSE(donor.next(62.0));
  EXPECT_EQ(refusal_of(donor, 62.0), 7u);
  donor.snapshot(11);
  donor.snapshot(12);  // for a third one there is no room
  EXPECT_EQ(refusal_of(donor, 63.0), 9u);
}

TEST(Takeover, WhoTakesOverGivesNothing) {
  SiteState state = donor_of(7, {some_bytes(100)});
  state.take_over(9, 1.0);
  EXPECT_EQ(refusal_of(state, 1.0), 7u);
  state.snapshot(20);
  EXPECT_EQ(refusal_of(state, 1.0), 20u);
  EXPECT_EQ(requests_of(state, 1.0).size(), 1u);
}

}  // namespace
}  // namespace thinwire::hub
