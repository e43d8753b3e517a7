// What the hub remembers of sites and rounds. Internal to transports/.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transports/hub_core_internal.h"

namespace thinwire::hub {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kRoundsAhead = 16;  // of the first open one; more is not accepted

// What is closed as one: all parts of a round.
struct Key {
  std::uint64_t number = 0;
  std::uint32_t phase = 0;
  Kind kind = Kind::gather;

  auto operator<=>(const Key&) const = default;
};

inline Key key_of(const Slot& slot) { return {slot.round.number, slot.round.phase, slot.kind}; }
inline Slot slot_of(const Key& key, std::uint32_t part, std::uint32_t epoch = 0) {
  return {{epoch, key.number, key.phase}, key.kind, part};
}

// The results that a site had when it first spoke to this hub.
struct Claims {
  std::uint64_t below = 0;
  std::set<Key> ahead;

  bool has(const Key& key) const { return key.number < below || ahead.contains(key); }
};

struct Site {
  std::string name;
  std::uint64_t process = 0;
  std::string key;
  Peer peer;
  std::uint32_t number = kNoNumber;
  std::uint32_t epoch = 0;  // the newest that it was told by an earlier hub
  Claims claims;
  bool active = false;
  std::string expelled;  // why its state is of no use to the run
  // It came to a run under way without a number: it may have lost its state, and must not be handed
  // rounds of an earlier hub that count its own frames.
  bool unproven = false;
  double since = 0.0;  // its first hello to this hub
  double last_seen = 0.0;
  std::uint64_t step = 0;  // the highest round it spoke of
  std::uint64_t left_out = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
};

struct Posts {
  std::vector<std::optional<Bytes>> parts;
  std::size_t count = 0;
};

struct OpenRound {
  double first = 0.0;          // time of its first post
  std::vector<Posts> by_site;  // by number
};

struct ClosedRound {
  std::uint32_t epoch = 0;
  std::vector<std::vector<SiteFrame>> parts;
  std::vector<std::uint32_t> absent;
  bool decided_here = true;  // or by an earlier hub
  std::size_t bytes = 0;

  bool includes(std::uint32_t site) const;
};

// A round that an earlier hub closed, on its way from a site that has it.
struct Fetch {
  std::vector<std::optional<Bundle>> parts;
  const Site* asked = nullptr;
  double again = 0.0;  // when to ask the next one
};

}  // namespace thinwire::hub
