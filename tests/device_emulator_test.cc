// The stand-in for a device proves itself: threads of a block wait for each other as on a device,
// what is handed over is late, and mistakes that a device may forgive are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "tests/support/device_orders.h"
#include "tests/support/fake_cuda/machine.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

using fake_cuda::Order;
using testing_support::for_each_order;

constexpr Device kFirst = Device::cuda(0);
constexpr unsigned kAll = 0xffffffffu;

// What a kernel writes to `count` values of T, from threads that get `input` too.
template <class T, class... Parameters, class... Arguments>
std::vector<T> results(std::size_t count, void (*kernel)(T*, Parameters...), device::Shape shape,
                       Arguments... arguments) {
  const device::Array<T> out(kFirst, count);
  device::launch(0, kernel, shape, out.get(), arguments...);
  std::vector<T> values(count);
  out.download(values);
  return values;
}

__global__ void name_threads(unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = i + 1000 * gridDim.x;
}

TEST(Launch, EveryThreadKnowsItsPlace) {
  for_each_order([](const std::string& order) {
    const auto values = results(5 * 37, &name_threads, {5, 37});
    for (unsigned i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i + 5000) << order;
  });
}

__global__ void reverse_block(int* out) {
  __shared__ int values[1024];
  const unsigned i = threadIdx.x;
  values[i] = static_cast<int>(i);
  __syncthreads();
  const int other = values[blockDim.x - 1 - i];
  __syncthreads();
  values[i] = other + 1;
  __syncthreads();
  out[blockIdx.x * blockDim.x + i] = values[(i + 1) % blockDim.x];
}

TEST(Barrier, WhatWasWrittenBeforeItIsReadBehindIt) {
  for_each_order([](const std::string& order) {
    for (const unsigned threads : {1u, 2u, 33u, 256u, 1024u}) {
      const auto values = results(3 * threads, &reverse_block, {3, threads});
      for (unsigned i = 0; i < values.size(); ++i) {
        const unsigned next = (i % threads + 1) % threads;
        ASSERT_EQ(values[i], static_cast<int>(threads - next)) << order << " " << i;
      }
    }
  });
}

__global__ void vote(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  const int count = __syncthreads_count(i % 3 == 0);
  const int some = __syncthreads_or(i == 77);
  const int none = __syncthreads_or(i > 100);
  const int all = __syncthreads_and(i < 100);
  const int most = __syncthreads_and(i != 99);
  out[i] = count + 1000 * some + 10000 * none + 100000 * all + 1000000 * most;
}

TEST(Barrier, CountsVotes) {
  for_each_order([](const std::string& order) {
    for (const int value : results(100, &vote, {1, 100})) ASSERT_EQ(value, 101034) << order;
  });
}

// Each thread reads what its neighbour wrote, and forgets to wait for it. Under the thread
// sanitizer that is a race; see ARaceIsReported.
__global__ void forget_a_barrier(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = -1;
  __syncthreads();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
#ifdef THINWIRE_SANITIZE_THREADS
  __syncthreads();
#endif
  out[threadIdx.x] = values[(threadIdx.x + 1) % 64];
}

TEST(Order, AMissingBarrierGivesOtherResultsInAnotherOrder) {
  std::set<std::vector<int>> seen;
  for_each_order([&](const std::string&) { seen.insert(results(64, &forget_a_barrier, {1, 64})); });
#ifdef THINWIRE_SANITIZE_THREADS
  EXPECT_EQ(seen.size(), 1u);
#else
  EXPECT_EQ(seen.size(), 3u);
#endif
}

__global__ void lean_on_the_block_before(int* out, int* last) {
  out[blockIdx.x] = *last;
  *last = static_cast<int>(blockIdx.x) + 1;
}

TEST(Order, BlocksChangePlacesToo) {
  std::set<std::vector<int>> seen;
  for_each_order([&](const std::string&) {
    device::Array<int> last(kFirst, 1);
    last.zero();
    seen.insert(results(8, &lean_on_the_block_before, {8, 1}, last.get()));
  });
  EXPECT_EQ(seen.size(), 3u);
}

template <class T>
__global__ void shuffle(T* out, T factor) {
  const int i = static_cast<int>(threadIdx.x);
  const T mine = factor * static_cast<T>(i);
  T* row = out + 6 * i;
  row[0] = __shfl_sync(kAll, mine, 5);
  row[1] = __shfl_sync(kAll, mine, i + 1, 8);
  row[2] = __shfl_up_sync(kAll, mine, 3, 16);
  row[3] = __shfl_down_sync(kAll, mine, 2);
  row[4] = __shfl_xor_sync(kAll, mine, 4);
  row[5] = __shfl_xor_sync(kAll, mine, 4, 4);
}

template <class T>
void expect_shuffles(T factor) {
  const auto values = results(64 * 6, &shuffle<T>, {1, 64}, factor);
  for (int i = 0; i < 64; ++i) {
    const int lane = i % 32;
    const int warp = i - lane;
    const int from[6] = {5,
                         lane / 8 * 8 + (lane + 1) % 8,
                         lane % 16 < 3 ? lane : lane - 3,
                         lane + 2 < 32 ? lane + 2 : lane,
                         lane ^ 4,
                         (lane & 4) != 0 ? lane - 4 : lane};
    for (int j = 0; j < 6; ++j) {
      ASSERT_EQ(values[6 * i + j], factor * static_cast<T>(warp + from[j])) << i << " " << j;
    }
  }
}

TEST(Warp, ShufflesEveryTypeInEveryOrder) {
  for_each_order([](const std::string&) {
    expect_shuffles<int>(-3);
    expect_shuffles<unsigned>(3000000000u);
    expect_shuffles<float>(0.3f);
    expect_shuffles<double>(0.1);
    expect_shuffles<long long>(-(1ll << 40));
    expect_shuffles<unsigned long long>(1ull << 57);
  });
}

__global__ void gather_votes(unsigned* out) {
  const unsigned i = threadIdx.x;
  unsigned* row = out + 8 * i;
  row[0] = __ballot_sync(kAll, i % 2 == 1);
  row[1] = static_cast<unsigned>(__any_sync(kAll, i == 40));
  row[2] = static_cast<unsigned>(__all_sync(kAll, i < 32));
  row[3] = __reduce_add_sync(kAll, i);
  row[4] = __reduce_max_sync(kAll, i);
  row[5] = static_cast<unsigned>(__reduce_max_sync(kAll, -static_cast<int>(i)));
  // Halves of a warp on their own ways.
  row[6] = i % 2 == 0 ? __ballot_sync(0x55555555u, 1) : __reduce_add_sync(0xaaaaaaaau, 1u);
  __syncwarp();
  row[7] = static_cast<unsigned>(__reduce_min_sync(kAll, -static_cast<int>(i)));
}

TEST(Warp, VotesAndSumsPerWarp) {
  for_each_order([](const std::string& order) {
    const auto values = results(64 * 8, &gather_votes, {1, 64});
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned warp = i / 32;
      const std::vector<unsigned> row(values.begin() + 8 * i, values.begin() + 8 * (i + 1));
      const std::vector<unsigned> expected = {
          0xaaaaaaaau,
          warp,
          1 - warp,
          496 + 1024 * warp,
          31 + 32 * warp,
          static_cast<unsigned>(-static_cast<int>(32 * warp)),
          i % 2 == 0 ? 0x55555555u : 16u,
          static_cast<unsigned>(-static_cast<int>(31 + 32 * warp))};
      ASSERT_EQ(row, expected) << order << " " << i;
    }
  });
}

// What a lane leaves in shared memory is there for the others of its warp behind __syncwarp.
__global__ void pass_along(int* out) {
  __shared__ int values[64];
  const unsigned i = threadIdx.x;
  values[i] = static_cast<int>(i);
  for (int round = 0; round < 5; ++round) {
    __syncwarp();
    const int next = values[i / 32 * 32 + (i + 1) % 32];
    __syncwarp();
    values[i] = next;
  }
  out[i] = values[i];
}

TEST(Warp, SyncwarpOrdersSharedMemory) {
  for_each_order([](const std::string& order) {
    const auto values = results(64, &pass_along, {1, 64});
    for (unsigned i = 0; i < 64; ++i) {
      ASSERT_EQ(values[i], static_cast<int>(i / 32 * 32 + (i + 5) % 32)) << order;
    }
  });
}

struct Counts {
  int signed_sum;
  unsigned sum;
  unsigned long long wide;
  float floats;
  double doubles;
  int most;
  unsigned least;
  unsigned bits;
};

__global__ void count_atomically(Counts* out) {
  const unsigned i = threadIdx.x;
  atomicAdd(&out->signed_sum, -1);
  atomicAdd(&out->sum, 2u);
  atomicAdd(&out->wide, 1ull << 33);
  atomicAdd(&out->floats, 0.5f);
  atomicAdd(&out->doubles, 0.25);
  atomicMax(&out->most, static_cast<int>(i));
  atomicMin(&out->least, 0u - i);
  atomicOr(&out->bits, 1u << i % 32);
}

TEST(Atomics, LoseNothing) {
  device::Array<Counts> out(kFirst, 1);
  out.zero();
  device::launch(0, &count_atomically, {4, 64}, out.get());
  std::vector<Counts> got(1);
  out.download(got);
  EXPECT_EQ(got[0].signed_sum, -256);
  EXPECT_EQ(got[0].sum, 512u);
  EXPECT_EQ(got[0].wide, 256ull << 33);
  EXPECT_EQ(got[0].floats, 128.0f);
  EXPECT_EQ(got[0].doubles, 64.0);
  EXPECT_EQ(got[0].most, 63);
  EXPECT_EQ(got[0].least, 0u);
  EXPECT_EQ(got[0].bits, kAll);
}

__global__ void leave_early(int*) {
  if (threadIdx.x % 2 == 0) return;
  __syncthreads();
}

__global__ void part_at_barriers(int*) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads_count(1);
  }
}

__global__ void name_a_lane_that_left(int* out) {
  if (threadIdx.x == 3) return;
  out[threadIdx.x] = __shfl_sync(kAll, 1, 0);
}

__global__ void leave_oneself_out(int* out) { out[threadIdx.x] = __shfl_sync(0xffffu, 1, 0); }

__global__ void say_different_masks(int* out) {
  out[threadIdx.x] = __shfl_sync(threadIdx.x < 16 ? kAll : 0xffff0000u, 1, 0);
}

class EmulatorDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EmulatorDeathTest, AThreadThatEndedNeverReachesTheBarrier) {
  EXPECT_DEATH(results(1, &leave_early, {1, 64}),
               "a barrier that some threads of the block never reach, in block 0 of 64 threads: "
               "threads at a barrier: 32 \\(the first: 1\\).*ended: 32");
}

TEST_F(EmulatorDeathTest, ABarrierIsOneForAll) {
  EXPECT_DEATH(results(1, &part_at_barriers, {1, 64}), "barrier that some threads");
}

TEST_F(EmulatorDeathTest, ALaneThatEndedIsNamed) {
  EXPECT_DEATH(results(64, &name_a_lane_that_left, {1, 64}), "some lanes of its mask never reach");
}

TEST_F(EmulatorDeathTest, LanesBeyondTheBlockDoNotExist) {
  EXPECT_DEATH(results(64, &name_a_lane_that_left, {1, 3}), "some lanes of its mask never reach");
}

TEST_F(EmulatorDeathTest, AMaskNamesItsOwnLane) {
  EXPECT_DEATH(results(64, &leave_oneself_out, {1, 32}), "leaves its own thread out");
}

TEST_F(EmulatorDeathTest, LanesAgreeOnTheMask) {
  EXPECT_DEATH(results(64, &say_different_masks, {1, 32}), "some lanes of its mask never reach");
}

#ifdef THINWIRE_SANITIZE_THREADS
__global__ void race(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = values[(threadIdx.x + 1) % 64];
}

__global__ void race_through_a_shuffle(int* out) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  const int one = __shfl_sync(kAll, 1, 0);
  out[threadIdx.x] = one + values[(threadIdx.x + 1) % 32];
}

TEST_F(EmulatorDeathTest, ARaceIsReported) {
  EXPECT_DEATH(
      {
        results(64, &race, {1, 64});
        std::exit(0);
      },
      "data race");
  EXPECT_DEATH(
      {
        results(32, &race_through_a_shuffle, {1, 32});
        std::exit(0);
      },
      "data race");
}
#endif

TEST(Launch, TooManyThreadsAreRefused) {
  try {
    results(1, &name_threads, {1, 1025});
    FAIL() << "was launched";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("invalid configuration argument"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace thinwire
