// Long messages in pieces: how they are cut and judged, and what they are for on a slow line.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/hub_client.h"
#include "tests/support/random.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/threads.h"
#include "transports/zmq_pieces_internal.h"

namespace thinwire::hub {
namespace {

Bytes message_of(std::size_t size, std::uint64_t seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(test::mix(seed + i / 8));
  return bytes;
}

std::vector<Bytes> cut(std::uint64_t id, const Bytes& message) {
  std::vector<Bytes> pieces;
  for (Cutter cutter(id, message); !cutter.done();) pieces.push_back(cutter.next().copy());
  return pieces;
}

// What came of a piece: "more", "whole", or why it is refused.
std::string outcome(Joiner& joiner, const Bytes& piece, Bytes* whole = nullptr) {
  auto taken = joiner.take(piece);
  if (!taken) return taken.why();
  if (!*taken) return "more";
  if (whole) whole->assign((*taken)->view().begin(), (*taken)->view().end());
  return "whole";
}

// With a field of eight bytes set: 2 the id, 10 the length, 18 the place.
Bytes with(Bytes piece, std::size_t field, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) piece[field + i] = static_cast<std::byte>(value >> (8 * i));
  return piece;
}

constexpr std::size_t kLongest = 16 * kPieceBytes;

TEST(ZmqPieces, PutTogetherWhatWasCut) {
  for (std::size_t size : {kPieceBytes + 1, 2 * kPieceBytes, 7 * kPieceBytes + 13, kLongest}) {
    const Bytes message = message_of(size, size);
    const std::vector<Bytes> pieces = cut(9, message);
    ASSERT_EQ(pieces.size(), (size + kPieceBytes - 1) / kPieceBytes);
    Joiner joiner(kLongest);
    Bytes whole;
    for (const Bytes& piece : pieces) {
      EXPECT_TRUE(is_piece(piece));
      EXPECT_EQ(outcome(joiner, piece, &whole), &piece == &pieces.back() ? "whole" : "more");
    }
    EXPECT_TRUE(whole == message) << size;
  }
}

TEST(ZmqPieces, ArePiecesOfSeveralMessagesInAnyMixture) {
  Joiner joiner(kLongest);
  std::vector<Bytes> messages;
  std::vector<std::vector<Bytes>> pieces;
  for (std::uint64_t id = 0; id < kUnfinishedMax; ++id) {
    messages.push_back(message_of((2 + id) * kPieceBytes + id, id));
    pieces.push_back(cut(id, messages.back()));
  }
  for (std::size_t at = 0; at < pieces.back().size(); ++at) {
    for (std::size_t id = 0; id < messages.size(); ++id) {
      if (at >= pieces[id].size()) continue;
      Bytes whole;
      const bool last = at + 1 == pieces[id].size();
      EXPECT_EQ(outcome(joiner, pieces[id][at], &whole), last ? "whole" : "more");
      if (last) {
        EXPECT_TRUE(whole == messages[id]) << id;
      }
    }
  }
}

TEST(ZmqPieces, RefusesGapsRepetitionsAndAnotherOrder) {
  const Bytes message = message_of(4 * kPieceBytes, 3);
  const std::vector<Bytes> pieces = cut(1, message);
  const std::vector<std::vector<std::size_t>> wrong{{1}, {0, 0}, {0, 2}, {0, 1, 1}, {0, 1, 0}};
  for (const auto& order : wrong) {
    Joiner joiner(kLongest);
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      EXPECT_EQ(outcome(joiner, pieces[order[i]]), "more");
    EXPECT_NE(outcome(joiner, pieces[order.back()]).find("out of order"), std::string::npos);
    // What had come is dropped: the message can begin anew, and not go on.
    EXPECT_NE(outcome(joiner, pieces[2]).find("out of order"), std::string::npos);
    Bytes whole;
    for (const Bytes& piece : pieces) outcome(joiner, piece, &whole);
    EXPECT_TRUE(whole == message);
  }
}

TEST(ZmqPieces, RefusesWrongLengths) {
  const std::vector<Bytes> pieces = cut(1, message_of(2 * kPieceBytes, 3));
  const auto refused = [](const Bytes& piece, const char* why) {
    Joiner joiner(kLongest);
    EXPECT_NE(outcome(joiner, piece).find(why), std::string::npos) << outcome(joiner, piece);
  };
  refused(with(pieces[0], 10, kLongest + 1), "at most");
  refused(with(pieces[0], 10, ~std::uint64_t{0}), "at most");
  refused(with(pieces[0], 10, kPieceBytes), "length");  // it would go as it is
  refused(with(pieces[0], 10, 0), "length");
  refused(Bytes(pieces[0].begin(), pieces[0].end() - 1), "length");
  refused(Bytes(pieces[0].begin(), pieces[0].begin() + kPieceHead), "no piece");
  refused(Bytes(1, pieces[0][0]), "no piece");
  Bytes longer = pieces[0];
  longer.push_back(std::byte{0});
  refused(longer, "length");
  Bytes other_version = pieces[0];
  other_version[1] = std::byte{2};
  refused(other_version, "no piece");
  Joiner joiner(kLongest);
  EXPECT_EQ(outcome(joiner, pieces[0]), "more");
  EXPECT_NE(outcome(joiner, with(pieces[1], 10, 3 * kPieceBytes)), "more") << "another length";
}

TEST(ZmqPieces, BoundsWhatIsUnderWay) {
  const Bytes first = cut(0, message_of(2 * kPieceBytes, 1))[0];
  Joiner many(kLongest);
  for (std::uint64_t id = 0; id < kUnfinishedMax; ++id)
    EXPECT_EQ(outcome(many, with(first, 2, id)), "more");
  EXPECT_NE(outcome(many, with(first, 2, 99)).find("too many"), std::string::npos);
  Joiner one(kLongest);
  EXPECT_EQ(outcome(one, with(first, 10, kLongest)), "more");
  EXPECT_NE(outcome(one, with(first, 2, 99)).find("at most"), std::string::npos);
}

TEST(ZmqPieces, AllocateForWhatCameNotForWhatIsAnnounced) {
  GrowingBytes bytes;
  const Bytes piece(kPieceBytes);
  for (int count = 1; count <= 64; ++count) {
    bytes.append(piece, std::size_t{1} << 40);
    EXPECT_LE(bytes.capacity(), std::max<std::size_t>(1 << 20, 2 * bytes.size()));
  }
  EXPECT_EQ(bytes.size(), 64 * kPieceBytes);
}

}  // namespace
}  // namespace thinwire::hub

namespace thinwire::test {
namespace {

using std::chrono::milliseconds;

// A line on which a frame takes three times the peer timeout, in each direction. Nobody is taken
// for dead: the hub hears pieces, and the site's pings overtake them and are answered.
TEST(ZmqPieces, KeepAliveASiteWhoseFramesTakeLongerThanThePeerTimeout) {
  const milliseconds peer_timeout(2000);
  constexpr std::size_t kFrame = 24'000'000;
  RunningHub hub({.peer_timeout = peer_timeout});
  const std::string address = hub->address();
  TcpProxy slow({.port = std::stoi(address.substr(address.rfind(':') + 1)),
                 .delay_s = 0.02,
                 .rate = 4e6,
                 .queue = 256 << 10});
  const std::vector<std::string> addresses{slow.address(), address};
  std::barrier both_done(2);
  const auto begin = std::chrono::steady_clock::now();
  run_threads(2, [&](int site) {
    ZmqLink link({.hubs = {addresses[site]},
                  .site = "site-" + std::to_string(site),
                  .peer_timeout = peer_timeout},
                 1, "");
    Exchange& exchange = link.exchange(0);
    exchange.post({}, Bytes(kFrame, std::byte(site)));
    const RoundResult result = exchange.collect({});
    EXPECT_EQ(result.frames.size(), 2u);
    EXPECT_TRUE(result.frames.at(1 - site).bytes == Bytes(kFrame, std::byte(1 - site)));
    // Sent once: neither the frame nor its result is repeated while it is under way.
    EXPECT_LT(exchange.traffic().bytes_sent, 2 * kFrame);
    EXPECT_LT(exchange.traffic().bytes_received, 2 * kFrame);
    both_done.arrive_and_wait();
    if (site == 0) {
      const auto status = HubClient(address).status();
      EXPECT_EQ(status["epoch"], 1) << "somebody was taken for dead: " << status.dump(1);
    }
    both_done.arrive_and_wait();  // before one says goodbye
  });
  EXPECT_EQ(slow.connections(), 1u) << "the site took the hub for dead";
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took.count(), 2 * kFrame / 4e6) << "the line was faster than it should be";
}

}  // namespace
}  // namespace thinwire::test
