// The stand-in for a device proves itself: threads of a block wait for each other as on a device,
// what is handed over is late, and mistakes that a device may forgive are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <thread>
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
constexpr Device kSecond = Device::cuda(1);
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

__global__ void fill(float* out, float value) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

TEST(Streams, NothingIsDoneBeforeSomebodyWaits) {
  wait_for(kFirst);
  FloatBuffer there(64, kFirst);
  FloatBuffer here(64, {}, Pages::pinned);
  device::launch(0, &fill, {1, 64}, there.floats().data(), 3.0f);
  cudaMemcpyAsync(here.floats().data(), there.floats().data(), 64 * sizeof(float),
                  cudaMemcpyDefault, cudaStreamPerThread);
  EXPECT_EQ(fake_cuda::pending(0), 3u);  // zeros, launch, copy
  EXPECT_EQ(here.floats()[7], 0.0f);
  wait_for(kFirst);
  EXPECT_EQ(fake_cuda::pending(0), 0u);
  EXPECT_EQ(here.floats()[7], 3.0f);
}

TEST(Streams, AskingAgainAndAgainComesToAnEnd) {
  wait_for(kFirst);
  FloatBuffer there(64, kFirst);
  for (int i = 0; i < 20; ++i) {
    device::launch(0, &fill, {1, 64}, there.floats().data(), static_cast<float>(i));
  }
  int asked = 1;
  while (!is_idle(kFirst)) ++asked;
  EXPECT_GT(asked, 3);
  EXPECT_LT(asked, 50);
  EXPECT_TRUE(is_idle(kFirst));
  EXPECT_EQ(fake_cuda::pending(0), 0u);
}

TEST(Streams, PageableMemoryIsTakenAtTheCallAndPinnedMemoryLater) {
  FloatBuffer there(1, kFirst);
  FloatBuffer pinned(1, {}, Pages::pinned);
  float plain = 1.0f;
  cudaMemcpyAsync(there.floats().data(), &plain, sizeof plain, cudaMemcpyDefault,
                  cudaStreamPerThread);
  plain = 2.0f;
  EXPECT_EQ(to_host(there)[0], 1.0f);
  pinned.floats()[0] = 3.0f;
  cudaMemcpyAsync(there.floats().data(), pinned.floats().data(), sizeof(float), cudaMemcpyDefault,
                  cudaStreamPerThread);
  pinned.floats()[0] = 4.0f;
  EXPECT_EQ(to_host(there)[0], 4.0f);
}

TEST(Streams, AThreadThatEndsLeavesNothingUndone) {
  FloatBuffer there(64, kFirst);
  wait_for(kFirst);
  const std::uint64_t before = fake_cuda::launches();
  std::thread([&] { device::launch(0, &fill, {1, 64}, there.floats().data(), 5.0f); }).join();
  EXPECT_EQ(fake_cuda::launches(), before + 1);
  EXPECT_EQ(to_host(there)[63], 5.0f);
}

// Two threads hand over to the same memory, in an order that only marks make.
float value_of_two_threads(bool with_mark) {
  FloatBuffer there(64, kFirst);
  wait_for(kFirst);
  device::launch(0, &fill, {1, 64}, there.floats().data(), 1.0f);
  const Mark mark = Mark::here(kFirst);
  device::launch(0, &fill, {1, 64}, there.floats().data(), 2.0f);
  float seen = 0.0f;
  std::thread([&] {
    if (with_mark) mark.join();
    seen = to_host(there)[0];
  }).join();
  wait_for(kFirst);
  return seen;
}

TEST(Marks, BringTwoThreadsIntoAnOrder) {
  EXPECT_EQ(value_of_two_threads(true), 1.0f);
  EXPECT_EQ(value_of_two_threads(false), 0.0f);
}

TEST(Marks, OutliveTheirPointAndMayBeEmpty) {
  Mark().join();
  Mark mark = Mark::here(kFirst);
  mark.join();
  wait_for(kFirst);
  mark.join();
  const Mark other = mark;
  mark = Mark::here({});
  mark.join();
  other.join();
  wait_for(kFirst);
}

TEST(Marks, ThreadsThatWaitForEachOtherGoOn) {
  constexpr int kThreads = 4;
  FloatBuffer values(kThreads, kFirst);
  wait_for(kFirst);
  std::vector<Mark> marks(kThreads);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (const Mark& mark : marks) mark.join();
        device::launch(0, &fill, {1, 1}, values.floats().data() + i, static_cast<float>(round));
        wait_for(kFirst);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Mark& mark : marks) mark = Mark::here(kFirst);
  }
  EXPECT_EQ(to_host(values), std::vector<float>(kThreads, 19.0f));
}

TEST(Memory, NewMemoryIsNoNumber) {
  const device::Array<float> values(kFirst, 100);
  std::vector<float> seen(100);
  values.download(seen);
  for (const float value : seen) ASSERT_TRUE(std::isnan(value));
}

#ifndef THINWIRE_SANITIZE_THREADS
TEST_F(EmulatorDeathTest, TheHostDoesNotReachTheMemoryOfADevice) {
  const FloatBuffer there(100, kFirst);
  wait_for(kFirst);
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile float*>(there.floats().data() + 99)),
               "");
  EXPECT_DEATH(const_cast<float*>(there.floats().data())[0] = 1.0f, "");
  EXPECT_EQ(to_host(there), std::vector<float>(100));
}
#endif

TEST(Memory, BuffersAreZeroAndCopyEverywhere) {
  const std::vector<float> numbers = {1.0f, -2.0f, 3.5f};
  EXPECT_EQ(to_host(FloatBuffer(3, kSecond)), std::vector<float>(3));
  const FloatBuffer there(numbers, kFirst);
  const FloatBuffer other(there, kSecond);
  const FloatBuffer again = other;
  EXPECT_EQ(again.device(), kSecond);
  FloatBuffer back(3);
  copy(again, back);
  EXPECT_EQ(to_host(back), numbers);
  zero(back);
  EXPECT_EQ(to_host(back), std::vector<float>(3));
  FloatBuffer moved = FloatBuffer(numbers, kFirst);
  FloatBuffer taken = std::move(moved);
  EXPECT_EQ(moved.size(), 0u);  // NOLINT: it says so
  zero(taken.floats().first(2));
  EXPECT_EQ(to_host(taken), (std::vector<float>{0.0f, 0.0f, 3.5f}));
}

TEST(Memory, NearCopiesOnlyWhatLiesElsewhere) {
  const std::vector<float> numbers = {1.0f, 2.0f};
  const FloatBuffer there(numbers, kFirst);
  const ConstFloats same = Near(there, kFirst);
  EXPECT_EQ(same.data(), there.floats().data());
  const Near far(there, {});
  const ConstFloats floats = far;
  EXPECT_EQ(floats[1], 2.0f);
}

TEST(Memory, WhatThereIsNoRoomForIsSaidAndNothingIsLost) {
  fake_cuda::set_machine({.bytes = 1 << 20});
  const std::size_t before = fake_cuda::bytes_in_use(0);
  {
    const FloatBuffer half(1 << 17, kFirst);
    try {
      const FloatBuffer more((1 << 17) + 1, kFirst);
      FAIL() << "there was room";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "CUDA device 0 has no room for 524292 bytes: 524288 of 1048576 are free; take a "
                "smaller model or batch, or more ranks on other devices");
    }
    const FloatBuffer rest(1 << 17, kFirst);
    EXPECT_EQ(to_host(rest), std::vector<float>(1 << 17));
    const FloatBuffer elsewhere(1 << 17, kSecond);
  }
  EXPECT_EQ(fake_cuda::bytes_in_use(0), before);
  fake_cuda::set_machine({});
}

TEST(Memory, PinnedPagesFallBackToPlainOnes) {
  fake_cuda::set_machine({.pinned = false});
  {
    FloatBuffer plain(16, {}, Pages::pinned);
    EXPECT_EQ(fake_cuda::pinned_bytes(), 0u);
    copy(FloatBuffer(std::vector<float>(16, 2.0f), kFirst), plain);
    EXPECT_EQ(plain.floats()[15], 2.0f);
  }
  fake_cuda::set_machine({});
  {
    const FloatBuffer pinned(16, {}, Pages::pinned);
    EXPECT_EQ(fake_cuda::pinned_bytes(), 64u);
  }
  EXPECT_EQ(fake_cuda::pinned_bytes(), 0u);
}

TEST(LostDevice, EveryCallSaysSoAndMemoryIsGivenBack) {
  const std::size_t before = fake_cuda::bytes_in_use(0);
  {
    FloatBuffer there(64, kFirst);
    wait_for(kFirst);
    device::launch(0, &fill, {1, 64}, there.floats().data(), 3.0f);
    fake_cuda::lose_devices(1);
    EXPECT_THROW(wait_for(kFirst), Error);  // the second of its two calls
    try {
      device::launch(0, &fill, {1, 64}, there.floats().data(), 3.0f);
      FAIL() << "it was lost";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "the CUDA device failed in choosing the device: unspecified launch failure "
                "(cudaErrorLaunchFailure); go on from a checkpoint, with another device or "
                "--device cpu");
    }
    EXPECT_THROW(to_host(there), Error);
    EXPECT_THROW(zero(there), Error);
    EXPECT_THROW(is_idle(kFirst), Error);
    EXPECT_THROW(Mark::here(kFirst), Error);
    EXPECT_THROW(FloatBuffer(1, kFirst), Error);
  }
  EXPECT_EQ(fake_cuda::bytes_in_use(0), before);
  fake_cuda::set_machine({});
  EXPECT_EQ(to_host(FloatBuffer(std::vector<float>{1.0f}, kFirst))[0], 1.0f);
}

TEST(LostDevice, CanBeLostAtAnyCall) {
  for (unsigned calls = 0; calls < 40; ++calls) {
    const std::size_t before = fake_cuda::bytes_in_use(0);
    fake_cuda::lose_devices(calls);
    try {
      FloatBuffer there(std::vector<float>(64), kFirst);
      device::launch(0, &fill, {1, 64}, there.floats().data(), 3.0f);
      const Mark mark = Mark::here(kFirst);
      mark.join();
      const FloatBuffer other(there, kFirst);
      EXPECT_EQ(to_host(other)[63], 3.0f);
    } catch (const Error&) {
    }
    EXPECT_EQ(fake_cuda::bytes_in_use(0), before) << calls;
    fake_cuda::set_machine({});
    wait_for(kFirst);
  }
}

// The library looks for devices once: each answer has a process of its own.
class DriverDeathTest : public EmulatorDeathTest {
 protected:
  static void tell_problem(const fake_cuda::Machine& machine) {
    fake_cuda::set_machine(machine);
    try {
      require(kFirst);
    } catch (const UsageError& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::exit(cuda_devices());
  }
};

TEST_F(DriverDeathTest, NoDriver) {
  EXPECT_EXIT(tell_problem({.driver = 0}), testing::ExitedWithCode(0),
              "no CUDA driver is installed \\(CUDA driver version is insufficient for CUDA runtime "
              "version\\); install one for CUDA 13.0, or use --device cpu");
}

TEST_F(DriverDeathTest, AnOldDriver) {
  EXPECT_EXIT(tell_problem({.driver = 12020}), testing::ExitedWithCode(0),
              "the driver knows CUDA up to 12.2, this program needs 13.0 \\(CUDA driver version is "
              "insufficient for CUDA runtime version\\); update the driver, or use --device cpu");
}

TEST_F(DriverDeathTest, NoDevice) {
  EXPECT_EXIT(tell_problem({.devices = 0}), testing::ExitedWithCode(0),
              "the driver has no device to give \\(no CUDA-capable device is detected\\); free one "
              "or give it to this process, or use "
              "--device cpu");
}

TEST_F(DriverDeathTest, TwoDevices) {
  EXPECT_EXIT(tell_problem({.devices = 2}), testing::ExitedWithCode(2), "");
}

TEST(Device, IsNamedAndRequired) {
  EXPECT_EQ(cuda_problem(), "");
  EXPECT_EQ(cuda_devices(), 2);
  EXPECT_EQ(name_of(kSecond), "CUDA device 1, Emulated device");
  require(kSecond);
  try {
    require(Device::cuda(2));
    FAIL() << "there are two";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "there is no CUDA device 2; this machine has 2, counted from 0");
  }
}

}  // namespace
}  // namespace thinwire
