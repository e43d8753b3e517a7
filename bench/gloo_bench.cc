// How fast the near link over Gloo is, and what becomes of it when a rank dies.
//
//   gloo_bench gloo_near [--turns 24]
//     A reduce-scatter and an all-gather of 64 MB between 2 and 4 processes on the loopback
//     interface, ours and Gloo called directly (its reduce-scatter by halving and doubling, its
//     all-gather), in turns in the same processes; the fastest of each counts, and the worse of the
//     two ratios. Beside it: Gloo's all-reduce (ring), which moves as many bytes.
//   gloo_bench gloo_faults [--turns 3]
//     kill -9 and SIGSTOP of one of 4 ranks in an operation, with a deadline of 3 s: reports that
//     came later than 3.5 s, lacked the rank or the operation, or did not come at all.
//
// Prints one JSON object. Speeds only mean something against each other.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/gloo_faults.h"
#include "transports/gloo.h"

namespace {

using namespace thinwire;
using nlohmann::json;

constexpr std::size_t kFloats = 16'000'000;
constexpr unsigned kPatience = 180;  // s; then a process ends itself

int turns = 0;  // 0: the default of the figure

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Fastest seconds of each way, of rank 0; the ranks leave each operation together.
struct Times {
  double ours = std::numeric_limits<double>::infinity();
  double ring = std::numeric_limits<double>::infinity();
  double halving = std::numeric_limits<double>::infinity();
};

void time(Collective& near, double& fastest, const std::function<void()>& work) {
  near.barrier();
  const double begin = now();
  work();
  near.barrier();
  fastest = std::min(fastest, now() - begin);
}

// What one rank does; its results go to the shared memory if it is rank 0.
void play(const std::string& directory, int rank, int size, Times& times) {
  GlooWorld world({.rank = rank, .size = size, .directory = directory});
  std::vector<int> members;
  std::vector<std::size_t> cuts{0};
  for (int one = 0; one < size; ++one) {
    members.push_back(one);
    cuts.push_back(kFloats * static_cast<std::size_t>(one + 1) / static_cast<std::size_t>(size));
  }
  const auto near = world.group("near", members);
  std::filesystem::create_directories(directory + "/direct");
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  gloo::rendezvous::FileStore store(directory + "/direct");
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  context->connectFullMesh(store, device);

  std::vector<float> values(kFloats, 1.0f);
  const Floats whole(values);
  const Floats mine = whole.subspan(cuts[rank], cuts[rank + 1] - cuts[rank]);
  std::vector<int> counts(size);
  for (int one = 0; one < size; ++one) counts[one] = static_cast<int>(cuts[one + 1] - cuts[one]);
  gloo::ReduceScatterHalvingDoubling<float> scatter(context, {values.data()},
                                                    static_cast<int>(kFloats), counts);
  gloo::AllgatherOptions gather(context);
  gather.setInput(mine.data(), mine.size());
  gather.setOutput(values.data(), values.size());
  gloo::AllreduceOptions reduce(context);
  reduce.setOutput(values.data(), values.size());
  reduce.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  reduce.setReduceFunction([](void* to, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(to, a, b, count);
  });
  std::uint32_t tag = 0;
  Times own;
  for (int turn = 0; turn <= turns; ++turn) {
    if (turn == 1) own = Times{};  // the first one is not counted
    time(*near, own.ring, [&] {
      reduce.setTag(++tag);
      gloo::allreduce(reduce);
    });
    time(*near, own.ours, [&] {
      near->reduce_scatter_mean(whole, mine, cuts);
      near->all_gather(mine, whole, cuts);
    });
    time(*near, own.halving, [&] {
      scatter.run();
      gather.setTag(++tag);
      gloo::allgather(gather);
    });
    std::fill(values.begin(), values.end(), 1.0f);
  }
  if (rank == 0) times = own;
}

Times measure(int size) {
  void* at =
      ::mmap(nullptr, sizeof(Times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("no shared memory");
  Times* times = new (at) Times{};
  std::string pattern = (std::filesystem::temp_directory_path() / "thinwire_bench_XXXXXX").string();
  const std::string directory = ::mkdtemp(pattern.data());
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(::fork());
    if (ranks.back() != 0) continue;
    ::alarm(kPatience);
    try {
      play(directory, rank, size, *times);
    } catch (const std::exception& error) {
      std::cerr << "gloo_bench: " << error.what() << "\n";
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  bool failed = false;
  for (const pid_t rank : ranks) {
    int status = 0;
    failed = ::waitpid(rank, &status, 0) != rank || status != 0 || failed;
  }
  std::filesystem::remove_all(directory);
  const Times measured = *times;
  ::munmap(at, sizeof(Times));
  if (failed) throw std::runtime_error("a process of the measurement failed");
  return measured;
}

double load() {
  double average = 0.0;
  return ::getloadavg(&average, 1) == 1 ? average : -1.0;
}

json gloo_near() {
  if (turns == 0) turns = 24;
  json result{{"bytes", kFloats * sizeof(float)}};
  double worst = std::numeric_limits<double>::infinity();
  for (const int size : {2, 4}) {
    const Times times = measure(size);
    worst = std::min(worst, times.halving / times.ours);
    result["processes_" + std::to_string(size)] = {
        {"ratio", times.halving / times.ours},
        {"ratio_of_all_reduce_ring", times.ring / times.ours},
        {"seconds", times.ours},
        {"seconds_of_gloo_all_reduce_ring", times.ring},
        {"seconds_of_gloo_reduce_scatter_and_all_gather", times.halving}};
  }
  result["value"] = worst;
  result["load"] = load();
  return result;
}

json gloo_faults() {
  if (turns == 0) turns = 3;
  int bad = 0;
  int reports = 0;
  double latest[2] = {0.0, 0.0};  // killed, frozen
  for (int turn = 0; turn < turns; ++turn) {
    for (const int signal : {SIGKILL, SIGSTOP}) {
      for (const char* operation : {"all_reduce_mean", "reduce_scatter_mean", "all_gather"}) {
        const test::GlooFault fault{.signal = signal, .operation = operation};
        for (const test::GlooReport& report : test::play_gloo_fault(fault)) {
          const std::string wrong = test::judge(fault, {report});
          std::cerr << wrong;
          bad += wrong.empty() ? 0 : 1;
          ++reports;
          double& worst = latest[signal == SIGSTOP ? 1 : 0];
          worst = std::max(worst, report.after_s);
        }
      }
    }
  }
  return {{"value", bad},
          {"reports", reports},
          {"latest_s_killed", latest[0]},
          {"latest_s_frozen", latest[1]},
          {"load", load()}};
}

}  // namespace

int main(int argc, char** argv) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // as the program does
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
  const std::string figure = argc > 1 ? argv[1] : "";
  if (argc == 4 && std::string(argv[2]) == "--turns") turns = std::atoi(argv[3]);
  if ((figure != "gloo_near" && figure != "gloo_faults") || (argc != 2 && turns < 1)) {
    std::cerr << "usage: gloo_bench gloo_near|gloo_faults [--turns N]\n";
    return 2;
  }
  try {
    std::cout << (figure == "gloo_near" ? gloo_near() : gloo_faults()).dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "gloo_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
