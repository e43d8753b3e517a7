// What sites and the hub say to each other, as values and as bytes. docs/far_link.md is the law.
// Bytes from outside are judged before use: what decode allocates is bounded by what it was handed,
// and one value has one encoding. Pure functions, safe from any thread. Internal to transports/ and
// apps/.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/exchange.h"
#include "thinwire/types.h"

namespace thinwire::hub {

inline constexpr std::uint8_t kProtocol = 1;
inline constexpr std::size_t kNameMax = 64;        // site names: letters, digits, '-', '_', '.'
inline constexpr std::size_t kRunMax = 256;        // run ids: printable ASCII
inline constexpr std::size_t kTextMax = 64 << 10;  // reasons, descriptions
inline constexpr std::size_t kStatusMax = 1 << 20;
inline constexpr std::size_t kPartsMax = 1024;  // ranks of a site
inline constexpr std::size_t kSitesMax = 1024;
inline constexpr std::size_t kAheadMax = 4096;
inline constexpr std::uint32_t kPhaseMax = 255;
inline constexpr std::uint32_t kNoNumber = 0xffffffff;

// gather: frames are relayed as they are. reduce: frames are fp32 vectors of one length that the
// hub averages in site order, so that a site sends and receives one copy.
enum class Kind : std::uint8_t { gather = 0, reduce = 1 };

// A round of one part (rank) of the model, in one of the two kinds.
struct Slot {
  // Its epoch is the hub's affair: sites send 0, the hub fills in the one that the round closed in.
  Round round;
  Kind kind = Kind::gather;
  std::uint32_t part = 0;

  bool operator==(const Slot&) const = default;
};

// Site to hub.

struct Hello {
  std::string run;            // run id; all sites of a run give the same
  std::string site;           // name
  std::uint64_t process = 0;  // random at start: tells a returning process from a new one
  std::uint64_t agreement = 0;
  std::string agreed{};  // "key = value" lines behind the agreement, to name the first difference
  std::uint32_t parts = 1;  // ranks of the site
  // What a restarted hub must know. This site has the results of all rounds below next_round, and
  // no phase of those is yet to come: it is at most the highest round the site has posted or asked
  // for.
  std::uint64_t next_round = 0;
  // The rounds from next_round on that it has results of, for all its parts; ascending, epoch and
  // part 0.
  std::vector<Slot> ahead{};
  std::uint32_t number = kNoNumber;  // from the last Welcome
  std::uint32_t epoch = 0;           // the newest it was told
};
struct Post {
  Slot slot;
  Bytes frame;
};
// Asks for a closed round again.
struct Want {
  Slot slot;
};
// A closed round that the site has and a restarted hub lacks; answers Missing.
struct Bundle {
  Slot slot;
  std::vector<SiteFrame> frames;  // ascending sites; reduce: one, site 0, the mean
  std::vector<std::uint32_t> absent;
};
struct Ping {
  std::uint64_t round = 0;  // the step the site is in
};
struct Bye {};
struct AskStatus {};

// Hub to site.

struct Welcome {
  std::uint32_t site = 0;        // this site's number
  std::uint32_t sites = 0;       // of the run
  std::uint64_t hub = 0;         // random at the hub's start
  std::uint64_t next_round = 0;  // the first round that is still open
  std::uint32_t epoch = 0;
};
struct Refused {
  std::string why;
  bool final = true;  // false: the same hello may succeed later
};
// The hub holds that frame, or the round is closed; no need to send it again.
struct Taken {
  Slot slot;
};
// The result of a round, to the part that asked or posted; the site's own frame is left out (it has
// it). `included`: the own frame counts.
struct Closed {
  Slot slot;
  bool included = false;
  std::vector<SiteFrame> frames;
  std::vector<std::uint32_t> absent;
};
// The hub was restarted and needs this closed round from somebody who has it.
struct Missing {
  Slot slot;
};
struct Pong {
  std::uint32_t epoch = 0;
  bool active = true;  // false: the site was taken for dead and is let in again by its next hello
};
struct Status {
  std::string json;
};

using Message = std::variant<Hello, Post, Want, Bundle, Ping, Bye, AskStatus, Welcome, Refused,
                             Taken, Closed, Missing, Pong, Status>;

// Why that value cannot be sent (too long, out of order, out of range); empty if it can.
std::string fault(const Message& message);
Bytes encode(const Message& message);  // of a message without fault
std::size_t encoded_size(const Message& message);
Result<Message> decode(ByteView bytes);
// A message of another version of the protocol: Refused is the answer that every version can read.
bool other_version(ByteView bytes);

}  // namespace thinwire::hub
