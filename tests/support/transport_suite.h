// What every transport must do, as one suite, included by each transport's test. A transport joins
// with a factory of about 25 lines:
//   INSTANTIATE_TEST_SUITE_P(Loopback, CollectiveSuite, testing::Values(&make_loopback));
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/threads.h"
#include "thinwire/collective.h"
#include "thinwire/error.h"
#include "thinwire/exchange.h"

namespace thinwire::test {

struct TransportOptions {
  int members = 1;
  std::chrono::milliseconds deadline{20'000};
};

// A number of members that can reach each other; each is used by one thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Collective& collective(int member) = 0;
  virtual Exchange& exchange(int member) = 0;
};

using TransportFactory = std::function<std::unique_ptr<Transport>(const TransportOptions&)>;
// In place of the bytes of the object, which differ from run to run.
inline void PrintTo(const TransportFactory&, std::ostream* out) { *out << "a transport"; }

class CollectiveSuite : public testing::TestWithParam<TransportFactory> {};
// The one operation that a far link has to know for the all-reduce baseline.
class AllReduceSuite : public testing::TestWithParam<TransportFactory> {};
class ExchangeSuite : public testing::TestWithParam<TransportFactory> {};

using std::chrono::milliseconds;

// Ascending cuts with empty and unequal parts.
inline std::vector<std::size_t> odd_cuts(std::size_t size, int members) {
  std::vector<std::size_t> cuts{0};
  for (int member = 1; member < members; ++member)
    cuts.push_back(size * member * member / members / members);
  cuts.push_back(size);
  return cuts;
}

inline std::vector<float> mean_in_order(int members, std::size_t size) {
  std::vector<float> mean = noise_vector(0, size);
  for (int member = 1; member < members; ++member) {
    for (std::size_t i = 0; i < size; ++i) mean[i] += noise(member, i);
  }
  for (float& value : mean) value /= static_cast<float>(members);
  return mean;
}

inline Bytes text_bytes(const std::string& text) {
  Bytes bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return bytes;
}

TEST_P(CollectiveSuite, AllToAllCarriesEveryMembersPart) {
  for (int members : {1, 2, 3, 5}) {
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{10'007}}) {
      const auto transport = GetParam()({.members = members});
      const std::vector<std::size_t> cuts = odd_cuts(size, members);
      run_threads(members, [&](int member) {
        const std::size_t length = cuts[member + 1] - cuts[member];
        std::vector<float> parts(length * members);
        Collective& near = transport->collective(member);
        near.all_to_all(noise_vector(member, size), parts, cuts);
        std::vector<float> stand_in(parts.size());
        near.Collective::all_to_all(noise_vector(member, size), stand_in, cuts);
        EXPECT_EQ(parts, stand_in);
        for (int from = 0; from < members; ++from) {
          const std::vector<float> theirs = noise_vector(from, size);
          EXPECT_TRUE(std::equal(parts.begin() + length * from, parts.begin() + length * (from + 1),
                                 theirs.begin() + cuts[member]));
        }
      });
    }
  }
}

TEST_P(CollectiveSuite, ReduceScatterGivesTheMeanInMemberOrder) {
  for (int members : {1, 2, 3, 5}) {
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{10'007}}) {
      const auto transport = GetParam()({.members = members});
      const std::vector<float> expected = mean_in_order(members, size);
      const std::vector<std::size_t> cuts = odd_cuts(size, members);
      run_threads(members, [&](int member) {
        const std::vector<float> whole = noise_vector(member, size);
        std::vector<float> mine(cuts[member + 1] - cuts[member]);
        transport->collective(member).reduce_scatter_mean(whole, mine, cuts);
        EXPECT_TRUE(std::equal(mine.begin(), mine.end(), expected.begin() + cuts[member]));
        std::vector<float> in_place = noise_vector(member, size);
        const Floats part = Floats(in_place).subspan(cuts[member], mine.size());
        transport->collective(member).reduce_scatter_mean(in_place, part, cuts);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), mine.begin()));
      });
    }
  }
}

TEST_P(CollectiveSuite, AllGatherGivesEveryPartToEveryone) {
  for (int members : {1, 2, 4}) {
    const auto transport = GetParam()({.members = members});
    const std::size_t size = 1003;
    const std::vector<std::size_t> cuts = odd_cuts(size, members);
    const std::vector<float> expected = noise_vector(9, size);
    run_threads(members, [&](int member) {
      Collective& collective = transport->collective(member);
      std::vector<float> apart(size, -2.0f);
      const Floats part = Floats(apart).subspan(cuts[member], cuts[member + 1] - cuts[member]);
      std::copy_n(expected.begin() + cuts[member], part.size(), part.begin());
      const std::vector<float> mine(part.begin(), part.end());
      std::vector<float> whole(size, -2.0f);
      collective.all_gather(mine, whole, cuts);
      EXPECT_EQ(whole, expected);
      collective.all_gather(part, apart, cuts);  // in its own place
      EXPECT_EQ(apart, expected);
    });
  }
}

TEST_P(AllReduceSuite, GivesEqualBitsToEveryone) {
  for (int members : {1, 2, 3, 4}) {
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{99'991}}) {
      const auto transport = GetParam()({.members = members});
      const std::vector<float> expected = mean_in_order(members, size);
      run_threads(members, [&](int member) {
        std::vector<float> whole = noise_vector(member, size);
        transport->collective(member).all_reduce_mean(whole);
        EXPECT_EQ(whole, expected);
      });
    }
  }
}

TEST_P(AllReduceSuite, ManyInARowKeepApart) {
  const int members = 4;
  const auto transport = GetParam()({.members = members});
  run_threads(members, [&](int member) {
    for (int turn = 0; turn < 200; ++turn) {
      std::vector<float> value(1 + turn % 3, static_cast<float>(turn * members + member));
      transport->collective(member).all_reduce_mean(value);
      for (float one : value) ASSERT_EQ(one, static_cast<float>(turn * members) + 1.5f);
    }
  });
}

TEST_P(CollectiveSuite, BroadcastReachesEveryoneFromAnyRoot) {
  const int members = 3;
  const auto transport = GetParam()({.members = members});
  run_threads(members, [&](int member) {
    for (int root = 0; root < members; ++root) {
      std::vector<float> data = noise_vector(member, 77);
      transport->collective(member).broadcast(data, root);
      EXPECT_EQ(data, noise_vector(root, 77));
    }
  });
}

TEST_P(CollectiveSuite, ManyOperationsInARowKeepApart) {
  const int members = 4;
  const auto transport = GetParam()({.members = members});
  run_threads(members, [&](int member) {
    Collective& collective = transport->collective(member);
    for (int turn = 0; turn < 500; ++turn) {
      std::vector<float> value{static_cast<float>(turn * members + member)};
      collective.all_reduce_mean(value);
      ASSERT_EQ(value[0], static_cast<float>(turn * members) + 1.5f);
      if (turn % 7 == 0) collective.barrier();
    }
  });
}

TEST_P(CollectiveSuite, AllReduceMovesTheBytesOfARing) {
  const int members = 4;
  const std::size_t size = 1 << 16;
  const auto transport = GetParam()({.members = members});
  run_threads(members, [&](int member) {
    std::vector<float> whole(size, 1.0f);
    const Traffic before = transport->collective(member).traffic();
    transport->collective(member).all_reduce_mean(whole);
    const Traffic after = transport->collective(member).traffic();
    const double ring = 2.0 * (members - 1) / members * sizeof(float) * size;
    EXPECT_NEAR(static_cast<double>(after.bytes_sent - before.bytes_sent), ring, 0.01 * ring);
    EXPECT_NEAR(static_cast<double>(after.bytes_received - before.bytes_received), ring,
                0.01 * ring);
  });
}

TEST_P(CollectiveSuite, AMissingMemberIsNamedWithinTheDeadline) {
  const auto transport = GetParam()({.members = 3, .deadline = milliseconds(200)});
  const auto begin = std::chrono::steady_clock::now();
  run_threads(3, [&](int member) {
    if (member == 1) return;
    std::vector<float> whole(8);
    try {
      transport->collective(member).all_reduce_mean(whole);
      ADD_FAILURE() << "nobody was missed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("1"), std::string::npos) << error.what();
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(200) + std::chrono::seconds(5));
}

TEST_P(ExchangeSuite, EveryoneHearsTheSameFramesInSiteOrder) {
  for (int members : {1, 2, 4}) {
    const auto transport = GetParam()({.members = members});
    run_threads(members, [&](int member) {
      Exchange& exchange = transport->exchange(member);
      EXPECT_EQ(exchange.site(), member);
      EXPECT_EQ(exchange.sites(), members);
      for (std::uint64_t number = 0; number < 50; ++number) {
        const Round round{1, number, 0};
        exchange.post(round, text_bytes(std::to_string(number * 10 + member)));
        const RoundResult heard = exchange.collect(round);
        ASSERT_EQ(heard.frames.size(), static_cast<std::size_t>(members));
        EXPECT_TRUE(heard.absent.empty());
        for (int site = 0; site < members; ++site) {
          EXPECT_EQ(heard.frames[site].site, site);
          EXPECT_EQ(heard.frames[site].bytes, text_bytes(std::to_string(number * 10 + site)));
        }
      }
    });
  }
}

TEST_P(ExchangeSuite, PostDoesNotWaitForOthers) {
  const auto transport = GetParam()({.members = 2});
  for (std::uint64_t number = 0; number < 9; ++number) {
    transport->exchange(0).post({1, number, 0}, text_bytes("a"));
  }
  run_threads(2, [&](int member) {
    for (std::uint64_t number = 0; number < 9; ++number) {
      if (member == 1) transport->exchange(1).post({1, number, 0}, text_bytes("b"));
      EXPECT_EQ(transport->exchange(member).collect({1, number, 0}).frames.size(), 2u);
    }
  });
}

TEST_P(ExchangeSuite, OldRoundsAreCollectedWhileNewOnesArePosted) {
  const int members = 3;
  const auto transport = GetParam()({.members = members});
  run_threads(members, [&](int member) {
    Exchange& exchange = transport->exchange(member);
    for (std::uint64_t number = 0; number < 100; ++number) {
      exchange.post({1, number, 0}, text_bytes(std::to_string(number)));
      if (number < 3) continue;
      const RoundResult heard = exchange.collect({1, number - 3, 0});
      ASSERT_EQ(heard.frames.size(), 3u);
      EXPECT_EQ(heard.frames[2].bytes, text_bytes(std::to_string(number - 3)));
    }
  });
}

TEST_P(ExchangeSuite, PhasesOfARoundKeepApart) {
  const auto transport = GetParam()({.members = 2});
  run_threads(2, [&](int member) {
    Exchange& exchange = transport->exchange(member);
    for (std::uint32_t phase = 0; phase < 3; ++phase) {
      exchange.post({1, 7, phase}, text_bytes(std::to_string(phase)));
      EXPECT_EQ(exchange.collect({1, 7, phase}).frames[0].bytes, text_bytes(std::to_string(phase)));
    }
  });
}

TEST_P(ExchangeSuite, ASecondFrameForARoundIsRefusedAndCounted) {
  const auto transport = GetParam()({.members = 2});
  run_threads(2, [&](int member) {
    Exchange& exchange = transport->exchange(member);
    exchange.post({1, 0, 0}, text_bytes("first"));
    if (member == 0) exchange.post({1, 0, 0}, text_bytes("second"));
    EXPECT_EQ(exchange.collect({1, 0, 0}).frames[0].bytes, text_bytes("first"));
    EXPECT_EQ(exchange.traffic().refused, member == 0 ? 1u : 0u);
  });
}

TEST_P(ExchangeSuite, OmitsAnAbsentSiteForEveryone) {
  const auto transport = GetParam()({.members = 3, .deadline = milliseconds(300)});
  run_threads(3, [&](int member) {
    if (member == 1) return;
    Exchange& exchange = transport->exchange(member);
    exchange.post({1, 0, 0}, text_bytes("here"));
    const RoundResult heard = exchange.collect({1, 0, 0});
    ASSERT_EQ(heard.frames.size(), 2u);
    EXPECT_EQ(heard.frames[0].site, 0);
    EXPECT_EQ(heard.frames[1].site, 2);
    EXPECT_EQ(heard.absent, std::vector<int>{1});
  });
  // Too late: refused, and the round stays what it was for the late one too.
  transport->exchange(1).post({1, 0, 0}, text_bytes("late"));
  EXPECT_EQ(transport->exchange(1).collect({1, 0, 0}).absent, std::vector<int>{1});
  EXPECT_EQ(transport->exchange(1).traffic().refused, 1u);
  EXPECT_TRUE(transport->exchange(1).missed({1, 0, 0}));
  EXPECT_FALSE(transport->exchange(0).missed({1, 0, 0}));
}

TEST_P(ExchangeSuite, FramesOfAnySizeArriveWhole) {
  const auto transport = GetParam()({.members = 2});
  run_threads(2, [&](int member) {
    Exchange& exchange = transport->exchange(member);
    std::uint64_t number = 0;
    for (std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{65'537}, std::size_t{3'000'000}}) {
      const Bytes frame(size, std::byte(member + 1));
      exchange.post({1, number, 0}, frame);
      const RoundResult heard = exchange.collect({1, number, 0});
      ASSERT_EQ(heard.frames.size(), 2u);
      EXPECT_EQ(heard.frames[1 - member].bytes, Bytes(size, std::byte(2 - member)));
      ++number;
    }
  });
}

TEST_P(ExchangeSuite, BytesAreCountedOnBothSides) {
  const auto transport = GetParam()({.members = 3});
  run_threads(3, [&](int member) {
    Exchange& exchange = transport->exchange(member);
    exchange.post({1, 0, 0}, Bytes(100 * (member + 1)));
    exchange.collect({1, 0, 0});
    const std::uint64_t own = 100u * (member + 1);
    EXPECT_GE(exchange.traffic().bytes_sent, own);
    EXPECT_LE(exchange.traffic().bytes_sent, own + 200);  // a transport's own framing
    EXPECT_GE(exchange.traffic().bytes_received, 600 - own);
    EXPECT_LE(exchange.traffic().bytes_received, 600 - own + 400);
  });
}

}  // namespace thinwire::test
