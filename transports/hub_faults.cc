// What a message may not say. Asked of what comes in as of what goes out, so that a value that one
// end cannot read is never sent.
#include <algorithm>
#include <tuple>

#include "transports/hub_messages_internal.h"

namespace thinwire::hub {
namespace {

std::string long_text(std::size_t bytes, std::size_t most, const std::string& what) {
  if (bytes <= most) return {};
  return what + " has " + std::to_string(bytes) + " bytes; at most " + std::to_string(most) +
         " are allowed";
}

bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

std::string fault_of(const Slot& slot) {
  if (slot.part >= kPartsMax) return "part " + std::to_string(slot.part) + " is out of range";
  if (slot.round.phase > kPhaseMax)
    return "phase " + std::to_string(slot.round.phase) + " is out of range";
  return {};
}

std::string fault_of(const std::vector<Slot>& ahead, std::uint64_t next_round) {
  if (ahead.size() > kAheadMax) return "too many rounds ahead";
  const auto key = [](const Slot& slot) {
    return std::tuple(slot.round.number, slot.round.phase, slot.kind);
  };
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    if (std::string why = fault_of(ahead[i]); !why.empty()) return why;
    if (ahead[i].part != 0 || ahead[i].round.epoch != 0) return "a round ahead has part or epoch";
    if (ahead[i].round.number < next_round) return "a round ahead is below the next round";
    if (i > 0 && key(ahead[i]) <= key(ahead[i - 1])) return "the rounds ahead do not ascend";
  }
  return {};
}

// Of Bundle and Closed: the frames of a round and who is absent.
std::string fault_of(const Slot& slot, const std::vector<SharedFrame>& frames,
                     const std::vector<std::uint32_t>& absent) {
  if (std::string why = fault_of(slot); !why.empty()) return why;
  if (frames.size() > kSitesMax || absent.size() > kSitesMax) return "too many sites";
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].site < 0 || frames[i].site >= static_cast<int>(kSitesMax))
      return "a site is out of range";
    if (i > 0 && frames[i].site <= frames[i - 1].site) return "the sites do not ascend";
  }
  for (std::size_t i = 0; i < absent.size(); ++i) {
    if (absent[i] >= kSitesMax) return "an absent site is out of range";
    if (i > 0 && absent[i] <= absent[i - 1]) return "the absent sites do not ascend";
  }
  if (slot.kind == Kind::reduce) {
    const bool mean = frames.empty() || (frames.size() == 1 && frames[0].site == 0);
    return mean ? "" : "a reduced round has one frame";
  }
  for (const SharedFrame& frame : frames) {
    if (std::binary_search(absent.begin(), absent.end(), static_cast<std::uint32_t>(frame.site)))
      return "a site is absent and has a frame";
  }
  return {};
}

struct Fault {
  std::string operator()(const Hello& m) const {
    if (m.run.empty() || m.run.size() > kRunMax ||
        !std::all_of(m.run.begin(), m.run.end(), [](char c) { return c >= ' ' && c <= '~'; }))
      return "a run id has 1 to 256 printable ASCII characters";
    if (m.site.empty() || m.site.size() > kNameMax ||
        !std::all_of(m.site.begin(), m.site.end(), name_char))
      return "a site's name has 1 to 64 letters, digits, '-', '_' or '.'";
    if (m.parts < 1 || m.parts > kPartsMax) return "a site has 1 to 1024 ranks";
    if (m.number != kNoNumber && m.number >= kSitesMax) return "the site's number is out of range";
    if (std::string why = fault_of(m.ahead, m.next_round); !why.empty()) return why;
    if (m.recent.size() > kRecentMax) return "too many recent rounds";
    for (const RoundHash& one : m.recent) {
      if (std::string why = fault_of(one.slot); !why.empty()) return why;
    }
    return long_text(m.agreed.size(), kTextMax, "what is agreed");
  }
  std::string operator()(const Fetch& m) const {
    return m.part < kPartsMax ? "" : "part " + std::to_string(m.part) + " is out of range";
  }
  std::string operator()(const Chunk& m) const {
    if (m.part >= kPartsMax) return "part " + std::to_string(m.part) + " is out of range";
    if (m.state_bytes > kStateMax) return "a state has more than 1 TiB";
    const std::uint64_t chunks = chunks_of(m.state_bytes);
    if (m.chunk >= chunks) return "a chunk is beyond the end of its state";
    const std::uint64_t rest = m.state_bytes - m.chunk * kChunkBytes;
    if (m.bytes.size() != std::min<std::uint64_t>(rest, kChunkBytes))
      return "a chunk has another length than its place in the state wants";
    return {};
  }
  std::string operator()(const Bundle& m) const { return fault_of(m.slot, m.frames, m.absent); }
  std::string operator()(const Closed& m) const { return fault_of(m.slot, m.frames, m.absent); }
  std::string operator()(const Welcome& m) const {
    return m.sites <= kSitesMax && m.site < m.sites ? "" : "the site's number is out of range";
  }
  std::string operator()(const Refused& m) const {
    return long_text(m.why.size(), kTextMax, "a reason");
  }
  std::string operator()(const Status& m) const {
    return long_text(m.json.size(), kStatusMax, "a status");
  }
  template <class M>
  std::string operator()(const M& m) const {
    if constexpr (requires { m.slot; }) return fault_of(m.slot);
    return {};
  }
};

}  // namespace

std::string fault(const Message& message) { return std::visit(Fault{}, message); }

}  // namespace thinwire::hub
