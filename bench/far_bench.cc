// How fast the far link is on the loopback interface: hub and sites are processes of their own.
//
//   far_bench far_throughput [--sites 2] [--turns 3]
//     With CURVE keys, frames of 1 MB, 4 rounds in flight. Counted are the bytes of frames that
//     sites hand to the hub and of those they receive from it, by the clock. Beside it: messages of
//     1 MB from one ZeroMQ PUSH socket to a PULL socket with CURVE, which is what one connection
//     can do at most.
//   far_bench far_dense [--sites 2] [--turns 3]
//     all_reduce_mean of 64 MB through the hub and by Gloo's ring of the same number of processes,
//     in turns; neither encrypts. The ratio is that of the fastest rounds of each. Beside it:
//     pieces of 256 KiB relayed by a ROUTER socket, as many bytes up and down, which is what a hub
//     can do at most.
//
// Prints one JSON object. Speeds only mean something against each other: the machine's load is part
// of them, and is given.
#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "transports/zmq.h"

namespace {

using namespace thinwire;
using nlohmann::json;

constexpr int kSitesMax = 8;
constexpr unsigned kPatience = 120;  // s; then a process ends itself
constexpr std::size_t kFrame = 1'000'000;
constexpr std::uint64_t kRounds = 400;
constexpr std::uint64_t kWarm = 20;  // rounds, not counted
constexpr std::uint64_t kInFlight = 4;
constexpr std::size_t kDenseFloats = 16'000'000;
constexpr int kDenseRounds = 4;
// Not counted: until hub and sites keep as many rounds as they ever do (2 GiB at the hub), each
// round takes memory that the process never had.
constexpr int kDenseWarm = 36;

int turns = 3;  // of what is compared; the best of each counts

// As the program does.
void keep_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the processes of a measurement share.
struct Board {
  std::array<char, 64> address;  // of the hub or the receiver
  std::atomic<bool> open;        // it can be dialled
  std::atomic<int> ready;        // members that wait for each other
  std::array<double, kSitesMax> begin, end;
  std::array<double, kSitesMax> fastest;  // round, s

  void wait_for_all(int members) {
    ++ready;
    while (ready < members) std::this_thread::yield();
  }
  double seconds(int members) const {
    return *std::max_element(end.begin(), end.begin() + members) -
           *std::min_element(begin.begin(), begin.begin() + members);
  }
};

class Processes {
 public:
  Processes() {
    void* at =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no shared memory");
    board_ = new (at) Board{};
  }
  ~Processes() {
    for (pid_t process : running_) ::kill(process, SIGKILL);
    for (pid_t process : running_) ::waitpid(process, nullptr, 0);
    ::munmap(board_, sizeof(Board));
  }

  void start(const std::function<void(Board&)>& work) {
    const pid_t process = ::fork();
    if (process < 0) throw std::runtime_error("cannot start a process");
    if (process > 0) return running_.push_back(process);
    ::alarm(kPatience);
    int code = 0;
    try {
      work(*board_);
    } catch (const std::exception& error) {
      std::cerr << "far_bench: " << error.what() << "\n";
      code = 1;
    }
    std::_Exit(code);
  }
  // Of the process started as number `at`.
  void wait(std::size_t at) {
    int status = 0;
    const pid_t process = std::exchange(running_[at], -1);
    ::waitpid(process, &status, 0);
    std::erase(running_, -1);
    if (status != 0) throw std::runtime_error("a process of the measurement failed");
  }
  void wait_for_the_last(std::size_t count) {
    for (; count > 0; --count) wait(running_.size() - 1);
  }
  Board& board() { return *board_; }

 private:
  Board* board_;
  std::vector<pid_t> running_;
};

struct Keys {
  ZmqKeys hub;
  std::vector<ZmqKeys> sites{};
};

void serve(Board& board, int sites, const Keys& keys) {
  ZmqHubOptions options{.listen = "tcp://127.0.0.1:0", .keys = keys.hub, .sites = sites};
  for (const ZmqKeys& one : keys.sites) options.allowed.push_back(one.public_key);
  ZmqHub hub(options);
  hub.address().copy(board.address.data(), board.address.size() - 1);
  board.open = true;
  hub.run();
}

// Starts a hub and so many sites, each of which does `work` with its link, and waits for the sites.
void play(Processes& processes, int sites, const Keys& keys,
          const std::function<void(Board&, ZmqLink&, int)>& work) {
  processes.start([&](Board& board) { serve(board, sites, keys); });
  for (int site = 0; site < sites; ++site) {
    processes.start([&, site](Board& board) {
      while (!board.open) std::this_thread::yield();
      ZmqLinkOptions options{.hubs = {board.address.data()},
                             .hub_key = keys.hub.public_key,
                             .site = "site-" + std::to_string(site)};
      if (!keys.sites.empty()) options.keys = keys.sites[site];
      ZmqLink link(options, 1, "");
      work(board, link, site);
    });
  }
  processes.wait_for_the_last(sites);
}

double load() {
  double average = 0.0;
  return ::getloadavg(&average, 1) == 1 ? average : -1.0;
}

// ---- far_throughput

// One connection of ZeroMQ with CURVE, GB/s.
double raw_curve() {
  const ZmqKeys server = make_zmq_keys();
  const ZmqKeys client = make_zmq_keys();
  constexpr int kMessages = 600;
  Processes processes;
  processes.start([&](Board& board) {
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::pull);
    socket.set(zmq::sockopt::rcvhwm, 16);
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_secretkey, server.secret_key);
    socket.bind("tcp://127.0.0.1:*");
    socket.get(zmq::sockopt::last_endpoint).copy(board.address.data(), board.address.size() - 1);
    board.open = true;
    zmq::message_t message;
    for (int i = 0; i <= kMessages; ++i) {
      static_cast<void>(socket.recv(message));
      if (i == 0) board.begin[0] = now();
    }
    board.end[0] = now();
  });
  processes.start([&](Board& board) {
    while (!board.open) std::this_thread::yield();
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::push);
    socket.set(zmq::sockopt::sndhwm, 16);
    socket.set(zmq::sockopt::curve_serverkey, server.public_key);
    socket.set(zmq::sockopt::curve_publickey, client.public_key);
    socket.set(zmq::sockopt::curve_secretkey, client.secret_key);
    socket.connect(board.address.data());
    for (int i = 0; i <= kMessages; ++i) socket.send(zmq::message_t(kFrame), zmq::send_flags::none);
  });
  processes.wait_for_the_last(2);
  return 1e-9 * static_cast<double>(kFrame * kMessages) / processes.board().seconds(1);
}

double throughput(int sites) {
  Keys keys{.hub = make_zmq_keys()};
  for (int site = 0; site < sites; ++site) keys.sites.push_back(make_zmq_keys());
  Processes processes;
  play(processes, sites, keys, [sites](Board& board, ZmqLink& link, int site) {
    Exchange& exchange = link.exchange(0);
    const Bytes frame(kFrame, std::byte{7});
    for (std::uint64_t round = 0; round < kWarm + kRounds + kInFlight; ++round) {
      if (round == kWarm + kInFlight) board.begin[site] = now();
      if (round < kWarm + kRounds) exchange.post({0, round, 0}, frame);
      if (round < kInFlight) continue;
      const RoundResult result = exchange.collect({0, round - kInFlight, 0});
      if (result.frames.size() != static_cast<std::size_t>(sites))
        throw std::runtime_error("a round closed without a site");
    }
    board.end[site] = now();
  });
  const double bytes = static_cast<double>(kFrame * kRounds) * sites * sites;
  return 1e-9 * bytes / processes.board().seconds(sites);
}

json far_throughput(int sites) {
  double ours = 0.0;
  double raw = 0.0;
  for (int turn = 0; turn < turns; ++turn) {
    raw = std::max(raw, raw_curve());
    ours = std::max(ours, throughput(sites));
  }
  return {{"value", ours},
          {"unit", "GB/s"},
          {"sites", sites},
          {"counted", "bytes of frames handed to the hub and received from it, all sites"},
          {"one_connection_of_zeromq_with_curve", raw},
          {"load", load()}};
}

// ---- far_dense

// Runs it a few times and notes the fastest.
void race(Board& board, int members, int member, const std::function<void()>& all_reduce,
          int warm = 1) {
  for (int round = 0; round < warm; ++round) all_reduce();
  board.wait_for_all(members);
  board.fastest[member] = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kDenseRounds; ++round) {
    const double begin = now();
    all_reduce();
    board.fastest[member] = std::min(board.fastest[member], now() - begin);
  }
}

std::vector<float> update_of(int member) {
  std::vector<float> values(kDenseFloats);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(member)) % 1000);
  return values;
}

// Of the slowest member, as no one goes on before it has the result.
double slowest(const Board& board, int members) {
  return *std::max_element(board.fastest.begin(), board.fastest.begin() + members);
}

double through_the_hub(int sites, const Keys& keys) {
  Processes processes;
  play(processes, sites, keys, [sites](Board& board, ZmqLink& link, int site) {
    std::vector<float> values = update_of(site);
    race(
        board, sites, site, [&] { link.collective(0).all_reduce_mean(values); }, kDenseWarm);
  });
  return slowest(processes.board(), sites);
}

double gloo_ring(int members) {
  std::string place = (std::filesystem::temp_directory_path() / "far_bench.XXXXXX").string();
  if (::mkdtemp(place.data()) == nullptr) throw std::runtime_error("no temporary directory");
  Processes processes;
  for (int member = 0; member < members; ++member) {
    processes.start([=](Board& board) {
      gloo::rendezvous::FileStore store(place);
      auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
      auto context = std::make_shared<gloo::rendezvous::Context>(member, members);
      context->connectFullMesh(store, device);
      std::vector<float> values = update_of(member);
      const auto sum = [](void* to, const void* a, const void* b, std::size_t count) {
        auto* out = static_cast<float*>(to);
        const auto* left = static_cast<const float*>(a);
        const auto* right = static_cast<const float*>(b);
        for (std::size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
      };
      race(board, members, member, [&] {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setOutput(values.data(), values.size());
        options.setReduceFunction(gloo::AllreduceOptions::Func(sum));
        gloo::allreduce(options);
        for (float& value : values) value /= static_cast<float>(members);
      });
    });
  }
  processes.wait_for_the_last(static_cast<std::size_t>(members));
  std::filesystem::remove_all(place);
  return slowest(processes.board(), members);
}

// What the hub's sockets cost at least: pieces of the same length from DEALER sockets by a ROUTER
// to the next one, each passed on as soon as it is there.
double raw_relay(int members) {
  constexpr std::size_t kPiece = 256 << 10;
  constexpr std::size_t kPieces = kDenseFloats * sizeof(float) / kPiece;
  Processes processes;
  processes.start([=](Board& board) {
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::router);
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.set(zmq::sockopt::linger, 0);
    socket.bind("tcp://127.0.0.1:*");
    socket.get(zmq::sockopt::last_endpoint).copy(board.address.data(), board.address.size() - 1);
    std::vector<std::string> names;
    board.open = true;
    zmq::message_t from, piece;
    const auto receive = [&] {
      static_cast<void>(socket.recv(from));
      static_cast<void>(socket.recv(piece));
    };
    for (int member = 0; member < members; ++member) {
      receive();
      names.push_back(from.to_string());
    }
    for (const std::string& name : names) {
      socket.send(zmq::buffer(name), zmq::send_flags::sndmore);
      socket.send(zmq::message_t(1), zmq::send_flags::none);
    }
    for (;;) {
      receive();
      const auto at = std::find(names.begin(), names.end(), from.to_string()) - names.begin();
      const std::string& to = names[static_cast<std::size_t>(at + 1) % names.size()];
      socket.send(zmq::buffer(to), zmq::send_flags::sndmore);
      socket.send(piece, zmq::send_flags::none);
    }
  });
  for (int member = 0; member < members; ++member) {
    processes.start([=](Board& board) {
      while (!board.open) std::this_thread::yield();
      zmq::context_t context;
      zmq::socket_t socket(context, zmq::socket_type::dealer);
      socket.set(zmq::sockopt::sndhwm, 0);
      socket.connect(board.address.data());
      socket.send(zmq::message_t(1), zmq::send_flags::none);
      std::vector<float> values = update_of(member);
      auto* bytes = reinterpret_cast<std::byte*>(values.data());
      zmq::message_t piece;
      static_cast<void>(socket.recv(piece));  // all are known
      race(board, members, member, [&] {
        for (std::size_t i = 0; i < kPieces; ++i)
          socket.send(zmq::buffer(bytes + i * kPiece, kPiece), zmq::send_flags::none);
        for (std::size_t i = 0; i < kPieces; ++i) {
          static_cast<void>(socket.recv(piece));
          std::memcpy(bytes + i * kPiece, piece.data(), piece.size());
        }
      });
    });
  }
  processes.wait_for_the_last(static_cast<std::size_t>(members));
  return slowest(processes.board(), members);
}

json far_dense(int sites) {
  Keys keys{.hub = make_zmq_keys()};
  for (int site = 0; site < sites; ++site) keys.sites.push_back(make_zmq_keys());
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double ours = kNever;
  double curve = kNever;
  double ring = kNever;
  double relay = kNever;
  for (int turn = 0; turn < turns; ++turn) {
    ring = std::min(ring, gloo_ring(sites));
    relay = std::min(relay, raw_relay(sites));
    ours = std::min(ours, through_the_hub(sites, {}));
    curve = std::min(curve, through_the_hub(sites, keys));
  }
  return {{"value", ring / ours},
          {"sites", sites},
          {"bytes", kDenseFloats * sizeof(float)},
          {"seconds", ours},
          {"seconds_with_curve", curve},
          {"seconds_of_gloo_ring", ring},
          {"ratio_with_curve", ring / curve},
          {"seconds_of_zeromq_relay", relay},
          {"ratio_of_zeromq_relay", ring / relay},
          {"load", load()}};
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  const std::map<std::string, json (*)(int)> figures{{"far_throughput", far_throughput},
                                                     {"far_dense", far_dense}};
  auto chosen = figures.end();
  int sites = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") continue;  // there is no other form
    if (word == "--sites" && i + 1 < argc) {
      sites = std::atoi(argv[++i]);
    } else if (word == "--turns" && i + 1 < argc) {
      turns = std::atoi(argv[++i]);
    } else {
      chosen = chosen == figures.end() ? figures.find(word) : figures.end();
    }
  }
  if (chosen == figures.end() || sites < 2 || sites > kSitesMax || turns < 1) {
    std::cerr
        << "usage: far_bench far_throughput|far_dense [--sites 2 to 8] [--turns 3] [--json]\n";
    return 2;
  }
  try {
    std::cout << chosen->second(sites).dump() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "far_bench: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
