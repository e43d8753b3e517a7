// One hub's judgement under a test's hand: says a message, looks at what came out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "transports/hub_records_internal.h"

namespace thinwire::hub {

inline Bytes text(const std::string& words) {
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

inline Bytes floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Hello hello_of(const std::string& site) {
  return {.run = "run",
          .site = site,
          .process = test::mix(site[0]),
          .agreement = 7,
          .agreed = "lr = 0.1\nmodel = gpt\n"};
}

inline Slot slot(std::uint64_t number, Kind kind = Kind::gather, std::uint32_t part = 0) {
  return {{0, number, 0}, kind, part};
}

// A core, its clock, and what it said since the last question.
struct Hub {
  explicit Hub(CoreOptions options = {.run = "run"}) : core(options) {}

  void say(const Peer& peer, Message message, const std::string& key = "") {
    heard = core.receive(now, peer, key, std::move(message));
  }
  void wait_until(double time) {
    heard.clear();
    while (core.next_tick() <= time) {
      now = std::max(now, core.next_tick());
      for (Out& out : core.tick(now)) heard.push_back(std::move(out));
    }
    now = time;
  }
  // The last message of that type to the peer.
  template <class M>
  const M* to(const Peer& peer) const {
    const M* last = nullptr;
    for (const Out& out : heard) {
      if (out.to == peer && std::holds_alternative<M>(out.message))
        last = &std::get<M>(out.message);
    }
    return last;
  }
  nlohmann::json status() const { return nlohmann::json::parse(core.status_json(now)); }
  std::uint64_t refused(const std::string& reason) const {
    return status()["refused"].value(reason, std::uint64_t{0});
  }

  Core core;
  double now = 0.0;
  std::vector<Out> heard;
};

// Peers "a", "b", ... of sites of the same names, all welcome.
inline void begin(Hub& hub, int sites) {
  for (int i = 0; i < sites; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    hub.say(name, hello_of(name));
  }
  ASSERT_TRUE(hub.to<Welcome>("a"));
}

}  // namespace thinwire::hub
