// Memory and streams of a device (thinwire/device.h), on a machine that is emulated: what is handed
// over is late, and what goes wrong is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "src/device/array.h"
#include "src/device/launch.cuh"
#include "tests/support/fake_cuda/machine.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr Device kFirst = Device::cuda(0);
constexpr Device kSecond = Device::cuda(1);

class EmulatorDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

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
