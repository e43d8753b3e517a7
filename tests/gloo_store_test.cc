// How ranks meet: the store at rank 0 against strangers, the roll against what earlier runs left.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/threads.h"
#include "thinwire/error.h"
#include "transports/gloo.h"
#include "transports/gloo_roll_internal.h"
#include "transports/gloo_socket_internal.h"
#include "transports/gloo_store_internal.h"

namespace thinwire::near {
namespace {

using std::chrono::milliseconds;
using test::run_threads;

Bytes bytes_of(const std::string& text) {
  const ByteView view = std::as_bytes(std::span<const char>(text));
  return Bytes(view.begin(), view.end());
}

Patience patient(int ms = 5'000) { return {milliseconds(ms), nullptr}; }

// A plain socket on the loopback interface, with 2 s for every answer.
struct Socket {
  explicit Socket(int port = 0) : number(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval most{2, 0};
    ::setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (port > 0) ::connect(number, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  ~Socket() { ::close(number); }
  void send(const std::string& text) const {
    static_cast<void>(!::send(number, text.data(), text.size(), MSG_NOSIGNAL));
  }
  std::string receive_all() const {  // until the other end closes
    std::string all;
    char buffer[4096];
    for (ssize_t got; (got = ::recv(number, buffer, sizeof buffer, 0)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }
  int number;
  sockaddr_in address{};
};

// Whatever listens at MASTER_PORT and says `text` to whoever comes.
struct Listener {
  explicit Listener(std::string text) : says(std::move(text)) {
    socklen_t size = sizeof socket.address;
    auto* address = reinterpret_cast<sockaddr*>(&socket.address);
    ::bind(socket.number, address, size);
    ::listen(socket.number, 8);
    ::getsockname(socket.number, address, &size);
    thread = std::jthread([this] {
      for (int one; (one = ::accept(socket.number, nullptr, nullptr)) >= 0; ::close(one)) {
        static_cast<void>(!::send(one, says.data(), says.size(), MSG_NOSIGNAL));
      }
    });
  }
  ~Listener() { ::shutdown(socket.number, SHUT_RDWR); }
  int port() const { return ntohs(socket.address.sin_port); }
  std::string says;
  Socket socket;
  std::jthread thread;
};

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(GlooStore, KeepsWhatIsSetForAllWhoDial) {
  const StoreServer server(0);
  const auto one = dial_store("127.0.0.1", server.port(), patient());
  const auto other = dial_store("localhost", server.port(), patient());
  EXPECT_FALSE(other->get("key"));
  one->set("key", bytes_of("first"));
  one->set("key", Bytes(kValueMax, std::byte{7}));
  EXPECT_EQ(other->get("key"), Bytes(kValueMax, std::byte{7}));
  EXPECT_EQ(one->own_address(), "127.0.0.1");
}

TEST(GlooStore, StrangersAreRefusedAndTheOthersServed) {
  const StoreServer server(0);
  const std::string hello = greeting();
  std::string newer = hello;
  newer[6] = '2';
  const std::vector<std::string> strange{"GET / HTTP/1.1\r\n\r\n",
                                         newer,
                                         "TWNEAR1\n\x05"
                                         "9.9.9",
                                         hello + "XX",
                                         hello + std::string("G\x00\x00\x00\x00\x00", 6),
                                         hello + std::string("S\x01k\xff\xff\xff\xff", 7),
                                         hello + std::string("S\x03../\x00\x00\x00\x00", 9),
                                         hello + std::string("G\xff", 2) + std::string(300, 'k')};
  for (const std::string& text : strange) {
    const Socket socket(server.port());
    socket.send(text);
    EXPECT_EQ(socket.receive_all(), hello) << text;  // and then closed
  }
  const auto one = dial_store("127.0.0.1", server.port(), patient());
  one->set("key", bytes_of("value"));
  EXPECT_EQ(one->get("key"), bytes_of("value"));
}

long resident_mib() {
  long pages = 0;
  std::ifstream("/proc/self/statm").ignore(64, ' ') >> pages;
  return pages * ::sysconf(_SC_PAGESIZE) >> 20;
}

TEST(GlooStore, WhoAsksWithoutReadingFillsNoMemoryAndIsAnsweredInTheEnd) {
  constexpr std::size_t kAsked = 200;
  const StoreServer server(0);
  const auto other = dial_store("127.0.0.1", server.port(), patient());
  other->set("key", Bytes(kValueMax, std::byte{7}));
  const long before = resident_mib();
  const Socket greedy(server.port());
  std::string all = greeting();
  for (std::size_t i = 0; i < kAsked; ++i) all += encode(Request{'G', "key", {}});
  greedy.send(all);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(other->get("key"));
  EXPECT_LT(resident_mib() - before, 100);
  ::shutdown(greedy.number, SHUT_WR);
  EXPECT_EQ(greedy.receive_all().size(), greeting().size() + kAsked * (5 + kValueMax));
}

TEST(GlooStore, WithoutDescriptorsItWaitsAndServesOn) {
  const StoreServer server(0);
  Socket late;
  late.address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
  rlimit own{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own), 0);
  const int next = ::dup(late.number);  // all numbers below are taken
  ::close(next);
  rlimit none = own;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ::connect(late.number, reinterpret_cast<sockaddr*>(&late.address), sizeof late.address);
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(400));
  const std::clock_t spent = std::clock() - before;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &own), 0);
  EXPECT_LT(spent, CLOCKS_PER_SEC / 10) << "it asks again and again";
  char first = 0;
  EXPECT_EQ(::recv(late.number, &first, 1, 0), 1);
}

TEST(GlooStore, WordsThatComeInPiecesAreUnderstood) {
  std::string stream = greeting() + encode(Request{'S', "key", bytes_of("value")});
  std::string in;
  for (const char c : greeting()) {
    EXPECT_FALSE((*take_greeting(in)).has_value());
    in += c;
  }
  EXPECT_EQ(*take_greeting(in), std::string(version()));
  for (const char c : stream.substr(greeting().size())) {
    EXPECT_FALSE((*take_request(in)).has_value());
    in += c;
  }
  const auto request = take_request(in);
  EXPECT_EQ((*request)->key, "key");
  EXPECT_EQ((*request)->value, bytes_of("value"));
  EXPECT_EQ(in, "");
}

TEST(GlooStore, WhoeverElseAnswersAtTheAddressIsNamed) {
  const std::vector<std::pair<std::string, std::string>> answers{
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "it is no thinwire"},
      {"TWNEAR1\n\x05"
       "9.9.9",
       "it runs thinwire 9.9.9, this one is " + std::string(version())},
      {"TWNEAR2\n\x05"
       "9.9.9",
       "it runs thinwire 9.9.9"},
  };
  for (const auto& [says, why] : answers) {
    const Listener listener(says);
    const std::string said = refusal([&] { dial_store("127.0.0.1", listener.port(), patient()); });
    EXPECT_NE(said.find(why), std::string::npos) << said;
  }
  const Listener mute("");
  const std::string said = refusal([&] { dial_store("127.0.0.1", mute.port(), patient(300)); });
  EXPECT_NE(said.find("it closes the connection or says nothing"), std::string::npos) << said;
}

// ---- the roll

struct Place {
  Place() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "thinwire_roll_XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Place() { std::filesystem::remove_all(path); }
  std::string path;
};

Hello hello_of(std::uint64_t nonce, std::uint32_t size) {
  return {.nonce = nonce,
          .size = size,
          .version = version(),
          .machine = "m",
          .address = "",
          .agreed = "k = 8\n"};
}

TEST(GlooRoll, AHelloComesBackAsItWasAndACutOneIsRefused) {
  Hello hello = hello_of(7, 3);
  hello.address = "10.0.0.2";
  const Bytes bytes = encode(hello);
  const Result<Hello> back = decode_hello(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->nonce, 7u);
  EXPECT_EQ(back->agreed, "k = 8\n");
  EXPECT_EQ(back->address, "10.0.0.2");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_hello(ByteView(bytes).first(size))) << size;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_hello(longer));
}

TEST(GlooRoll, WhatEarlierRunsLeftBehindFitsNowhere) {
  const Place place;
  std::vector<std::uint64_t> ids;
  for (std::uint64_t run = 0; run < 3; ++run) {
    std::vector<std::uint64_t> own(3);
    run_threads(3, [&](int rank) {
      // Ranks find the files of the run before this one and must not go by them.
      if (rank == static_cast<int>(run)) std::this_thread::sleep_for(milliseconds(50));
      const auto store = open_directory(place.path);
      const Hello mine = hello_of(100 * run + static_cast<std::uint64_t>(rank) + 1, 3);
      own[rank] = call_roll(*store, rank, mine, patient()).id;
    });
    EXPECT_EQ(own[0], own[1]);
    EXPECT_EQ(own[0], own[2]);
    for (const std::uint64_t id : ids) EXPECT_NE(id, own[0]);
    ids.push_back(own[0]);
  }
}

TEST(GlooRoll, MixedVersionsInADirectoryAreRefusedAtBothEnds) {
  const Place place;
  std::vector<std::string> said(2);
  run_threads(2, [&](int rank) {
    const auto store = open_directory(place.path);
    Hello mine = hello_of(static_cast<std::uint64_t>(rank) + 1, 2);
    if (rank == 1) mine.version = "9.9.9";
    said[rank] = refusal([&] { call_roll(*store, rank, mine, patient(400)); });
  });
  for (const std::string& text : said) {
    EXPECT_NE(text.find("9.9.9"), std::string::npos) << text;
    EXPECT_NE(text.find("install the same version everywhere"), std::string::npos) << text;
  }
}

TEST(GlooRoll, OtherWorldSizesAndSettingsAreNamed) {
  Hello other = hello_of(2, 3);
  EXPECT_EQ(misfit(hello_of(1, 2), 0, other, 1),
            "rank 1 was told of 3 ranks, rank 0 of 2; give all the same WORLD_SIZE");
  other = hello_of(2, 2);
  other.agreed = "k = 16\n";
  EXPECT_EQ(misfit(hello_of(1, 2), 0, other, 1),
            "rank 1 was given other settings than rank 0: 'k = 16' against 'k = 8'");
  EXPECT_EQ(misfit(hello_of(1, 2), 0, hello_of(2, 2), 1), "");
}

TEST(GlooRoll, TwoProcessesWithTheSameRankAreTold) {
  const StoreServer server(0);
  std::vector<std::string> said(2);
  run_threads(2, [&](int i) {
    const auto store = dial_store("127.0.0.1", server.port(), patient());
    const Hello mine = hello_of(static_cast<std::uint64_t>(i) + 1, 3);
    said[i] = refusal([&] { call_roll(*store, 1, mine, patient(500)); });
  });
  const std::string both = said[0] + said[1];
  EXPECT_NE(both.find("another process says too that it is rank 1"), std::string::npos) << both;
}

TEST(GlooRoll, TwoProcessesThatAreBothRankZeroAreTold) {
  const Place place;
  std::vector<std::string> said(2);
  run_threads(2, [&](int i) {
    const auto store = open_directory(place.path);
    const Hello mine = hello_of(static_cast<std::uint64_t>(i) + 1, 2);
    said[i] = refusal([&] { call_roll(*store, 0, mine, patient(500)); });
  });
  const std::string both = said[0] + said[1];
  EXPECT_NE(both.find("another process says too that it is rank 0"), std::string::npos) << both;
}

TEST(GlooRoll, ALoopbackAddressAmongSeveralMachinesIsNamed) {
  Roll roll{.id = 1, .hellos = {hello_of(1, 3), hello_of(2, 3), hello_of(3, 3)}};
  roll.hellos[1].address = "127.0.1.1";
  check_addresses(roll);  // all on one machine
  roll.hellos[2].machine = "other";
  const std::string said = refusal([&] { check_addresses(roll); });
  EXPECT_NE(said.find("rank 1 has the address 127.0.1.1"), std::string::npos) << said;
  EXPECT_NE(said.find("/etc/hosts"), std::string::npos) << said;
  EXPECT_NE(said.find("--near-interface"), std::string::npos) << said;
  roll.hellos[1].address = "10.0.0.2";
  check_addresses(roll);
  roll.hellos[1].address = "::1";
  EXPECT_NE(refusal([&] { check_addresses(roll); }), "");
}

TEST(GlooRoll, ADirectoryThatCannotBeWrittenIntoIsNamed) {
  const std::string said = refusal([] { open_directory("/proc/thinwire"); });
  EXPECT_NE(said.find("ranks cannot meet in /proc/thinwire"), std::string::npos) << said;
}

}  // namespace
}  // namespace thinwire::near
