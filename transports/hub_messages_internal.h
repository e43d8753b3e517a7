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
#include "transports/shared_bytes_internal.h"

namespace thinwire::hub {

inline constexpr std::uint8_t kProtocol = 3;
inline constexpr std::size_t kNameMax = 64;        // site names: letters, digits, '-', '_', '.'
inline constexpr std::size_t kRunMax = 256;        // run ids: printable ASCII
inline constexpr std::size_t kTextMax = 64 << 10;  // reasons, descriptions
inline constexpr std::size_t kStatusMax = 1 << 20;
inline constexpr std::size_t kPartsMax = 1024;  // ranks of a site
inline constexpr std::size_t kSitesMax = 1024;
inline constexpr std::size_t kAheadMax = 4096;
inline constexpr std::size_t kRecentMax = 128;
inline constexpr std::uint32_t kPhaseMax = 255;
inline constexpr std::uint32_t kNoNumber = 0xffffffff;
inline constexpr std::uint64_t kStateMax = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kNoStep = ~std::uint64_t{0};
inline constexpr std::uint64_t kAnyStep = kNoStep - 1;
inline constexpr std::size_t kChunkBytes = 64 << 10;  // of a replicated state; the last is shorter

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

// What a site said in a round; reduce: the mean, as if of site 0.
struct SharedFrame {
  int site = 0;
  SharedBytes bytes;
};

// Of the result of a round: who is absent and what the others said, in all parts.
struct RoundHash {
  Slot slot;
  std::uint64_t hash = 0;

  bool operator==(const RoundHash&) const = default;
};
std::uint64_t fold_result(std::uint64_t hash, const std::vector<SharedFrame>& frames,
                          const std::vector<std::uint32_t>& absent);

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
  // Of the last results that it has, in the same order: sites whose results differ cannot go on
  // together.
  std::vector<RoundHash> recent{};
  std::uint32_t number = kNoNumber;  // from the last Welcome
  std::uint32_t epoch = 0;           // the newest it was told
  std::uint32_t hubs = 1;            // how many it knows
  // It must take the state over, and has begun with that of this step (kAnyStep: with none).
  std::uint64_t taking = kNoStep;
  std::uint64_t taken = kNoStep;  // the step of the state that it has taken over last
  bool gives = true;              // it can give its state to others
};
struct Post {
  Slot slot;
  SharedBytes frame;
};
// Asks for a closed round again.
struct Want {
  Slot slot;
};
// A closed round that the site has and a restarted hub lacks; answers Missing.
struct Bundle {
  Slot slot;
  std::vector<SharedFrame> frames;  // ascending sites; reduce: one, site 0, the mean
  std::vector<std::uint32_t> absent;
};
struct Ping {
  std::uint64_t round = 0;        // the step the site is in
  std::uint64_t taken = kNoStep;  // the step of the state that it has taken over
  std::uint64_t echo = 0;         // the token of the last Pong
};
// Site to hub, and on to a site that has it: a chunk of the replicated state of one part as it is
// at the start of a step.
struct Fetch {
  std::uint64_t step = 0;
  std::uint32_t part = 0;
  std::uint64_t chunk = 0;
  std::uint32_t site = kNoNumber;  // who wants it; the hub fills it in
};
// The answer, by the same way back.
struct Chunk {
  std::uint64_t step = 0;
  std::uint32_t part = 0;
  std::uint64_t chunk = 0;
  std::uint32_t site = kNoNumber;
  std::uint64_t state_bytes = 0;  // of the whole state of the part
  std::uint64_t state_hash = 0;
  std::uint64_t hash = 0;  // of `bytes`
  Bytes bytes;
};
// This site cannot give the state of that step.
struct NoState {
  std::uint64_t step = 0;
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
  // The site must take over the run's state as it is at the start of this step.
  std::uint64_t takeover = kNoStep;
  // How long the hub counts on a site that it does not hear of. For so long after its last Ping the
  // site speaks to no hub at another address.
  std::uint32_t lease_ms = 0;
};
// The state as it is at the start of that step is wanted; keep it.
struct Snapshot {
  std::uint64_t step = 0;
};
struct Refused {
  std::string why;
  bool final = true;  // false: the same hello may succeed later
};
// The hub holds that frame, or the round is closed; no need to send it again.
struct Taken {
  Slot slot;
};
// The result of a round, to the part that asked or posted. `included`: what this process posted
// counts, and is left out here (it has it). Otherwise a frame under the site's own number may be
// among them: of a process before it, or its own by way of an earlier hub; it sees which.
struct Closed {
  Slot slot;
  bool included = false;
  std::vector<SharedFrame> frames;
  std::vector<std::uint32_t> absent;
};
// The hub was restarted and needs this closed round from somebody who has it.
struct Missing {
  Slot slot;
};
struct Pong {
  std::uint32_t epoch = 0;
  bool active = true;  // false: the site was taken for dead and is let in again by its next hello
  std::uint64_t token = 0;       // of this hub's clock; echoed by the next Ping
  std::uint64_t next_round = 0;  // as in Welcome
  bool awaited = true;           // rounds wait for the site; false while it catches up
};
struct Status {
  std::string json;
};

using Message = std::variant<Hello, Post, Want, Bundle, Ping, Bye, AskStatus, Welcome, Refused,
                             Taken, Closed, Missing, Pong, Status, Fetch, Chunk, NoState, Snapshot>;

// An empty state has one empty chunk.
inline std::uint64_t chunks_of(std::uint64_t state_bytes) {
  return state_bytes == 0 ? 1 : (state_bytes - 1) / kChunkBytes + 1;
}

// Why that value cannot be sent (too long, out of order, out of range); empty if it can.
std::string fault(const Message& message);
Bytes encode(const Message& message);  // of a message without fault
Encoded encode_shared(
    const Message& message);  // the same; its long frames are those of the message
std::size_t encoded_size(const Message& message);
Result<Message> decode(ByteView bytes);
Result<Message> decode_shared(const SharedBytes& bytes);  // frames are parts of these bytes
// A message of another version of the protocol: Refused is the answer that every version can read.
bool other_version(ByteView bytes);

}  // namespace thinwire::hub
