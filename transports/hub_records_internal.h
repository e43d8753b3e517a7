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
  std::map<Key, std::uint64_t> hashes;  // of the last ones
  std::uint64_t lacks = 0;              // of rounds below it keeps no result any more

  bool has(const Key& key) const { return key.number < below || ahead.contains(key); }
  bool gives(const Key& key) const { return has(key) && key.number >= lacks; }
  bool operator==(const Claims&) const = default;
};
Claims claims_of(const Hello& hello);

// A site on its way into a run under way: it takes the replicated state of the others over as it is
// at the start of a step, and then applies the rounds that were closed meanwhile.
struct Takeover {
  std::uint64_t step = 0;
  std::vector<std::uint32_t> donors;  // numbers of sites that may have the state
  std::size_t asked = 0;              // requests passed on
  int tries = 0;                      // steps for which nobody could give it
};

struct Site {
  std::string name;
  std::uint64_t process = 0;
  std::string key;
  Peer peer;
  std::uint32_t number = kNoNumber;
  std::uint32_t epoch = 0;  // the newest that it was told by an earlier hub
  std::uint32_t hubs = 1;   // that it knows
  bool gives = true;        // its state to others
  Claims claims;
  Claims told;           // as its first hello to this hub had them
  bool active = false;   // heard of, and not further behind than it can catch up
  bool awaited = false;  // rounds wait for it
  std::optional<Takeover> takeover;
  bool outdated = false;  // its replica was found useless, and it has taken over no other since
  // What its last hello said.
  std::uint64_t next_round = 0;
  std::uint64_t taking = kNoStep;
  double lease = 0.0;  // until then it speaks to no other hub
  double since = 0.0;  // its first hello to this hub
  double last_seen = 0.0;
  std::uint64_t step = 0;  // the highest round it spoke of
  std::uint64_t left_out = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  bool left = false;  // it said goodbye
};

struct Posts {
  std::uint64_t process = 0;
  std::vector<std::optional<SharedBytes>> parts;
  std::size_t count = 0;
};

struct OpenRound {
  double first = 0.0;          // time of its first post
  std::vector<Posts> by_site;  // by number
};

struct ClosedRound {
  std::uint32_t epoch = 0;
  std::vector<std::vector<SharedFrame>> parts;
  std::vector<std::uint32_t> absent;
  std::vector<std::uint64_t> processes;  // by number: who posted; empty: an earlier hub knows
  bool decided_here = true;              // or by an earlier hub
  std::size_t bytes = 0;

  bool includes(std::uint32_t site) const;
};

// A round that an earlier hub closed, on its way from a site that has it.
struct Retrieval {
  std::vector<std::optional<Bundle>> parts;
  const Site* asked = nullptr;
  double again = 0.0;  // when to ask the next one
  int asked_times = 0;
};

}  // namespace thinwire::hub
