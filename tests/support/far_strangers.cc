#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "tests/support/far_faults.h"
#include "transports/hub_messages_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire::test {
namespace {

constexpr double kPatience = 60.0;

// What a stranger gives instead of what it should, and words of both ends that name the difference.
struct Stranger {
  std::string name;
  Words words;      // of `thinwire train`, after those of a member
  Words site_says;  // all of them
  Words hub_says;
};

// The run is one of the real program, on the loopback interface but with keys.
class Strangers {
 public:
  explicit Strangers(double within_s) : within_s_(within_s), hub_key_(make_keys(dir_, 3)) {
    std::ofstream text(dir_.path("text"));
    for (int i = 0; i < 400; ++i) text << "line " << i * i % 97 << " of a small text\n";
    // site-c has keys that the hub does not know.
    std::ofstream(dir_.path("allow.txt")) << key("site-a") << "\n" << key("site-b") << "\n";
  }

  FaultReport go() {
    const std::string expected =
        hash_of("alone", train({"--out", dir_.path("alone"), "--set", "model.layers=1"}, "alone"));
    start_hub();
    const auto a = member("site-a");
    const auto b = member("site-b");
    if (!wait_until(kPatience, [&] { return says("site-a.err", "the run begins"); })) {
      fail("the run does not begin: " + file_text(dir_.path("site-a.err")));
      return report_;
    }
    for (const Stranger& stranger : strangers()) meet(stranger);
    speak_another_version();
    if (!a->running()) fail("the run was over before the last stranger came");
    for (const std::string name : {"site-a", "site-b"}) {
      if (hash_of(name, name == "site-a" ? a : b) != expected) {
        fail(name + " ends with another state: " + file_text(dir_.path(name + ".err")));
      }
    }
    report_.beside["longest_refusal_s"] = longest_;
    return report_;
  }

 private:
  using Process = std::unique_ptr<Child>;

  void fail(const std::string& line) {
    report_.failures.push_back(line);
    std::fprintf(stderr, "  FAILURE %s\n", line.c_str());
  }
  std::string key(const std::string& name) const {
    return file_text(dir_.path(name + ".public")).substr(0, 40);
  }
  bool says(const std::string& file, const std::string& words) const {
    return file_text(dir_.path(file)).find(words) != std::string::npos;
  }

  void start_hub() {
    hub_ = std::make_unique<Child>(ChildOptions{
        .words = {THINWIRE_PROGRAM, "hub", "--listen", address_, "--sites", "2", "--run", "ours",
                  "--keys", dir_.path("hub.key"), "--allow", dir_.path("allow.txt")},
        .errors = dir_.path("hub.err")});
  }
  // Later words win.
  Process train(const Words& more, const std::string& name) const {
    Words words{THINWIRE_PROGRAM, "train", "--method",       "distro", "--data",  dir_.path("text"),
                "--sites",        "2",     "--batch",        "4",      "--steps", "2000",
                "--eval-every",   "2000",  "--eval-windows", "4",      "--json"};
    for (const char* set : {"model.width=64", "model.context=32"}) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Child>(ChildOptions{
        .words = words, .output = dir_.path(name + ".out"), .errors = dir_.path(name + ".err")});
  }
  Process site(const std::string& name, const Words& more) const {
    Words words{"--out", dir_.path(name), "--site", name, "--hub", address_};
    words.insert(words.end(), more.begin(), more.end());
    return train(words, name);
  }
  struct Who {
    std::string keys;
    std::string hub_key;
    std::string run = "ours";
    std::string layers = "1";
  };
  Words words_of(const Who& who) const {
    Words words{"--set", "model.layers=" + who.layers, "--run", who.run};
    if (!who.keys.empty()) words.insert(words.end(), {"--keys", dir_.path(who.keys + ".key")});
    if (!who.hub_key.empty()) words.insert(words.end(), {"--hub-key", who.hub_key});
    return words;
  }
  Process member(const std::string& name) const { return site(name, words_of({name, hub_key_})); }

  std::string hash_of(const std::string& name, const Process& process) const {
    if (process->wait(kPatience) != 0) return "none";
    const auto json = nlohmann::json::parse(file_text(dir_.path(name + ".out")), nullptr, false);
    return json.is_array() && !json.empty() ? json[0].value("hash", "none") : "none";
  }

  std::vector<Stranger> strangers() const {
    return {
        {"no-key", words_of({}), {"key"}, {"no key"}},
        {"unlisted-key", words_of({"site-c", hub_key_}), {"key"}, {key("site-c")}},
        {"wrong-hub-key", words_of({"site-a", key("site-b")}), {"key"}, {"key"}},
        {"wrong-run",
         words_of({"site-a", hub_key_, "theirs"}),
         {"theirs", "ours"},
         {"theirs", "ours"}},
        {"other-layout",
         words_of({"site-a", hub_key_, "ours", "2"}),
         {"layers = 1", "layers = 2"},
         {"layers = 1", "layers = 2"}},
    };
  }

  void meet(const Stranger& stranger) {
    const std::size_t before = file_text(dir_.path("hub.err")).size();
    const double begin = monotonic_s();
    const Process process = site(stranger.name, stranger.words);
    const auto code = process->wait(kPatience);
    const double took = monotonic_s() - begin;
    longest_ = std::max(longest_, took);
    const std::string mine = file_text(dir_.path(stranger.name + ".err"));
    const std::string hubs = file_text(dir_.path("hub.err")).substr(before);
    std::fprintf(stderr, "%s: %.2f s\n  site: %s  hub: %s", stranger.name.c_str(), took,
                 mine.c_str(), hubs.c_str());
    if (!code || *code == 0) fail(stranger.name + ": was not refused");
    if (took > within_s_) fail(stranger.name + ": took " + std::to_string(took) + " s");
    for (const std::string& word : stranger.site_says) {
      if (mine.find(word) == std::string::npos) {
        fail(stranger.name + ": the site does not say '" + word + "': " + mine);
      }
    }
    for (const std::string& word : stranger.hub_says) {
      if (hubs.find(word) == std::string::npos) {
        fail(stranger.name + ": the hub does not say '" + word + "': " + hubs);
      }
    }
  }

  // A hello of the protocol's next version.
  void speak_another_version() {
    hub::Hello hello{.run = "ours", .site = "site-a"};
    Bytes bytes = hub::encode(hello);
    bytes[1] = std::byte{hub::kProtocol + 1};
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvtimeo, static_cast<int>(within_s_ * 1e3));
    set_client_curve(socket, read_zmq_keys(dir_.path("site-a.key")), hub_key_);
    socket.connect(address_);
    socket.send(zmq::buffer(bytes.data(), bytes.size()), zmq::send_flags::none);
    zmq::message_t heard;
    if (!socket.recv(heard)) return fail("other version: no answer");
    const auto message = hub::decode({static_cast<const std::byte*>(heard.data()), heard.size()});
    const auto* refused = message ? std::get_if<hub::Refused>(&*message) : nullptr;
    if (refused == nullptr) return fail("other version: was not refused");
    const std::string mine = std::to_string(hub::kProtocol + 1);
    std::fprintf(stderr, "other version: %s\n", refused->why.c_str());
    if (refused->why.find(mine) == std::string::npos) {
      fail("other version: the answer does not name it: " + refused->why);
    }
    if (!wait_until(within_s_, [&] { return says("hub.err", refused->why); })) {
      fail("other version: the hub's log does not name it: " + file_text(dir_.path("hub.err")));
    }
  }

  const double within_s_;
  ScratchDir dir_;
  const std::string hub_key_;
  const std::string address_ = "tcp://127.0.0.1:" + std::to_string(free_port());
  Process hub_;
  FaultReport report_;
  double longest_ = 0.0;
};

}  // namespace

FaultReport strangers(double within_s) { return Strangers(within_s).go(); }

}  // namespace thinwire::test
