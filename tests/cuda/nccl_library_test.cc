// NCCL's own library behind the table: loaded on demand, and by nothing else. Without a driver it
// answers and connects nobody; with devices the ranks of a site go through the transports' suite,
// one device each.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/support/threads.h"
#include "tests/support/transport_suite.h"
#include "thinwire/device.h"
#include "transports/loopback.h"
#include "transports/nccl.h"
#include "transports/nccl_api_internal.h"

namespace thinwire::test {
namespace {

constexpr int kSuiteMembers = 5;  // as many as a test of the suite has

std::string needed_libraries(const std::string& file) {
  const std::string command = std::string(THINWIRE_READELF) + " -d '" + file + "'";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char part[4096];
  while (pipe != nullptr && std::fgets(part, sizeof part, pipe.get()) != nullptr) {
    if (const std::string line = part; line.find("(NEEDED)") != line.npos) text += line;
  }
  return text;
}

bool is_mapped(const std::string& library) {
  return ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

// Ranks with a device each, from `first` on.
class NcclTransport final : public Transport {
 public:
  NcclTransport(const TransportOptions& transport, NcclOptions options)
      : clique_(transport.members),
        control_({.ranks = transport.members, .deadline = transport.deadline}),
        nears_(transport.members) {
    options.deadline = transport.deadline;
    run_threads(transport.members, [&](int rank) {
      NcclOptions own = options;
      own.device = Device::cuda(rank);
      nears_[rank] = std::make_unique<NcclNear>(clique_, control_.near(0, rank), own);
    });
  }
  ~NcclTransport() override { nears_.clear(); }
  Collective& collective(int member) override { return *nears_[member]; }
  Exchange& exchange(int) override { throw Error("NCCL carries no frames"); }

 private:
  NcclClique clique_;
  LoopbackWorld control_;
  std::vector<std::unique_ptr<NcclNear>> nears_;
};

std::unique_ptr<Transport> make_nccl(const TransportOptions& options) {
  return std::make_unique<NcclTransport>(options, NcclOptions{});
}

std::vector<TransportFactory> factories() {
  if (cuda_devices() < kSuiteMembers) return {};
  return {&make_nccl};
}
INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveSuite, testing::ValuesIn(factories()));
INSTANTIATE_TEST_SUITE_P(Nccl, AllReduceSuite, testing::ValuesIn(factories()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CollectiveSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AllReduceSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExchangeSuite);

// First of all tests: the others load it.
TEST(ANcclLibrary, IsMappedByNobodyWhoDoesNotAskForIt) {
  EXPECT_FALSE(is_mapped("libnccl.so.2"));
  const std::string needed = needed_libraries(THINWIRE_PROGRAM);
  ASSERT_NE(needed.find("libc.so"), needed.npos) << "readelf read nothing from " THINWIRE_PROGRAM;
  EXPECT_EQ(needed.find("libnccl"), needed.npos) << needed;
  EXPECT_EQ(needed.find("libcuda"), needed.npos) << needed;
  EXPECT_EQ(needed.find("libcublas"), needed.npos) << needed;
}

TEST(NcclLibrary, AnswersWhenItIsAskedFor) {
  const auto api = load_nccl();
  EXPECT_TRUE(is_mapped("libnccl.so.2"));
  std::printf("NCCL %s\n", nccl_version_text(api->version()).c_str());
  EXPECT_GE(api->version(), 22200);
  NcclId one{};
  NcclId other{};
  EXPECT_EQ(api->unique_id(one), NcclResult::ok) << api->last_error(nullptr);
  EXPECT_EQ(api->unique_id(other), NcclResult::ok);
  EXPECT_NE(one, other);
}

TEST(NcclLibrary, WhatIsMissingIsNamedWithWhatToInstall) {
  const auto said = [](const std::string& library) {
    try {
      load_nccl(library);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string hint = "; install NCCL 2.22 or newer for CUDA (libnccl2)";
  std::string text = said("libnccl-that-is-not-there.so.2");
  EXPECT_EQ(text.find("NCCL cannot be loaded (libnccl-that-is-not-there.so.2: cannot open"), 0u)
      << text;
  EXPECT_NE(text.find(hint), text.npos) << text;
  text = said("libm.so.6");
  EXPECT_EQ(text.find("the library that is NCCL here has no ncclGetVersion" + hint), 0u) << text;
}

TEST(NcclLibrary, WithoutADriverNobodyIsConnectedAndAllHearWhy) {
  if (cuda_problem().empty()) GTEST_SKIP() << "a driver is here";
  NcclClique clique(2);
  LoopbackWorld control({.ranks = 2, .deadline = milliseconds(5000)});
  NcclOptions options;
  options.connect_timeout = options.abort_deadline = milliseconds(5000);
  std::vector<std::string> said(2);
  run_threads(2, [&](int rank) {
    try {
      NcclNear near(clique, control.near(0, rank), options);
    } catch (const Error& error) {
      said[rank] = error.what();
    }
  });
  for (const std::string& one : said) {
    EXPECT_NE(one.find("failed in connecting the ranks: unhandled CUDA error"), one.npos) << one;
    EXPECT_NE(one.find("driver"), one.npos) << one;
    std::printf("%s\n", one.c_str());
  }
}

TEST(NcclDevices, TakePartInTheSuite) {
  if (cuda_devices() >= kSuiteMembers) return;
  const std::string why =
      cuda_problem().empty() ? std::to_string(cuda_devices()) + " are here" : cuda_problem();
  GTEST_SKIP() << "the suite needs " << kSuiteMembers << " CUDA devices: " << why;
}

// On as many devices as there are: floats where they lie, both sums, a failure and what follows it.
TEST(NcclDevices, CarryAndSumWhatLiesOnThem) {
  if (cuda_devices() < 2) {
    GTEST_SKIP() << "needs 2 CUDA devices: "
                 << (cuda_problem().empty() ? "1 is here" : cuda_problem());
  }
  const int members = std::min(cuda_devices(), 8);
  for (const NcclSums sums : {NcclSums::exact, NcclSums::fast}) {
    NcclOptions options;
    options.sums = sums;
    const auto transport = std::make_unique<NcclTransport>(
        TransportOptions{.members = members, .deadline = milliseconds(20'000)}, options);
    const std::size_t size = 3'000'017;
    const std::vector<float> expected = mean_in_order(members, size);
    run_threads(members, [&](int rank) {
      const Device device = Device::cuda(rank);
      const std::vector<float> own = noise_vector(rank, size);
      FloatBuffer whole(own, device);
      auto& near = dynamic_cast<NcclNear&>(transport->collective(rank));
      near.all_reduce_mean(whole);
      const std::vector<float> mean = to_host(whole);
      for (std::size_t i = 0; i < size; ++i) ASSERT_NEAR(mean[i], expected[i], 1e-5);
      EXPECT_TRUE(sums == NcclSums::fast || mean == expected);
      copy(own, whole);
      near.broadcast(whole, members - 1);
      EXPECT_TRUE(to_host(whole) == noise_vector(members - 1, size));
      near.rebuild();
      near.barrier();
    });
  }
}

TEST(NcclDevices, TwoRanksOnOneAreTold) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  NcclClique clique(2);
  LoopbackWorld control({.ranks = 2, .deadline = milliseconds(5000)});
  run_threads(2, [&](int rank) {
    NcclOptions options;
    options.device = Device::cuda(0);
    try {
      NcclNear near(clique, control.near(0, rank), options);
      ADD_FAILURE() << "two ranks share a device";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find("near: ranks 0 and 1 of this site are both on CUDA device 0 (GPU-"), 0u)
          << text;
    }
  });
}

// The kernel over NCCL's stand-in for a site: equal to the bit to what the host computes.
TEST(NcclDevices, MeansHaveTheBitsOfTheHost) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  const auto api = load_nccl();
  for (const int members : {1, 2, 3, 7}) {
    const std::size_t size = 100'003;
    std::vector<FloatBuffer> there;
    std::vector<const float*> sources;
    for (int member = 0; member < members; ++member) {
      there.emplace_back(ConstFloats(noise_vector(member, size)), Device::cuda(0));
      sources.push_back(there.back().floats().data());
    }
    api->mean(sources, there[members / 2]);  // in the place of one of them
    EXPECT_TRUE(to_host(there[members / 2]) == mean_in_order(members, size));
  }
}

}  // namespace
}  // namespace thinwire::test
