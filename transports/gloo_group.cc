#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "transports/gloo_group_internal.h"
#include "transports/gloo_slots_internal.h"

namespace thinwire::near {
namespace {

constexpr std::chrono::milliseconds kFarewellMost{200};
constexpr std::chrono::milliseconds kLook{2};  // is it there already?

const char* text_of(Operation operation) {
  constexpr std::array<const char*, 6> kNames{
      "nothing", "reduce_scatter_mean", "all_gather", "all_reduce_mean", "broadcast", "barrier"};
  const auto at = static_cast<std::size_t>(operation);
  return at < kNames.size() ? kNames[at] : "something unknown";
}

std::string text_of(const Header& header, const Group::Options& options) {
  std::string text = text_of(header.operation);
  if (header.operation == Operation::barrier) return text;
  text += " of " + std::to_string(header.length) + " floats";
  if (header.operation == Operation::broadcast && header.detail < options.members.size()) {
    text += " from rank " + std::to_string(options.members[header.detail]);
  }
  return text;
}

}  // namespace

Group::Group(Options options, std::unique_ptr<Mesh> mesh)
    : options_(std::move(options)), mesh_(std::move(mesh)) {
  if (size() == 1) return;
  watch_ = std::make_unique<Watch>();
  for (int member = 0; member < size(); ++member) {
    if (member == rank()) continue;
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.member = member;
    peer.header_in_buffer = mesh_->buffer(&peer.header_in, sizeof(Header));
    peer.header_out_buffer = mesh_->buffer(&own_, sizeof(Header));
    peer.farewell_in_buffer = mesh_->buffer(&peer.farewell_in, sizeof(Farewell));
    peer.farewell_out_buffer = mesh_->buffer(&farewell_, sizeof(Farewell));
    post_receive(peer, *peer.header_in_buffer, kHeaderSlot, 0, sizeof(Header));
    post_receive(peer, *peer.farewell_in_buffer, kFarewellSlot, 0, sizeof(Farewell));
  }
}

Group::~Group() { drop(); }

void Group::begin(Operation operation, std::size_t length, std::uint64_t detail) {
  if (!failure_.empty()) throw Error(failure_);
  own_.operation = operation;
  ++own_.sequence;
  own_.length = length;
  own_.detail = detail;
  for (const auto& peer : peers_) {
    post_send(*peer, *peer->header_out_buffer, kHeaderSlot, 0, sizeof(Header));
  }
  hear_headers();
  compare_headers();
  for (const auto& peer : peers_) expect(watch_->send(*peer->header_out_buffer, deadline()), *peer);
}

void Group::hear_headers() {
  std::vector<Peer*> late;
  Clock::time_point end = deadline();
  for (const auto& peer : peers_) {
    const Heard heard = watch_->receive(*peer->header_in_buffer, end);
    if (heard == Heard::gone) lose(*peer);
    if (heard == Heard::yes) continue;
    late.push_back(peer.get());
    end = Clock::now() + kLook;  // all of them, but without waiting again
  }
  if (late.empty()) return;
  std::string who;
  for (const Peer* peer : late) who += (who.empty() ? "" : ", ") + name_of(peer->member);
  fail(who + " did not come to " + operation_text() + " within " +
       std::to_string(options_.deadline.count()) + " ms");
}

// Everyone sees all headers and finds the same first difference.
void Group::compare_headers() {
  std::vector<Header> all(size(), own_);
  for (const auto& peer : peers_) {
    all[peer->member] = peer->header_in;
    post_receive(*peer, *peer->header_in_buffer, kHeaderSlot, 0, sizeof(Header));
  }
  for (int member = 1; member < size(); ++member) {
    const Header& one = all[member];
    if (one.magic != own_.magic) fail(name_of(member) + " sends what is no header");
    std::string mine = text_of(all[0], options_);
    std::string other = text_of(one, options_);
    if (one.sequence != all[0].sequence) {
      mine += " as operation " + std::to_string(all[0].sequence);
      other += " as operation " + std::to_string(one.sequence);
    } else if (one.detail != all[0].detail && mine == other) {
      mine += " cut in one way";
      other += " cut in another";
    }
    if (mine == other) continue;
    fail(name_of(member) + " calls " + other + " where " + name_of(0) + " calls " + mine +
         "; all must call the same operations in the same order with the same sizes");
  }
}

void Group::post_send(Peer& peer, gloo::transport::UnboundBuffer& buffer, std::uint64_t slot,
                      std::size_t offset, std::size_t bytes) {
  try {
    buffer.send(peer.member, slot, offset, bytes);
    traffic_.bytes_sent += bytes;
  } catch (const std::exception&) {
    lose(peer);
  }
}

void Group::post_receive(Peer& peer, gloo::transport::UnboundBuffer& buffer, std::uint64_t slot,
                         std::size_t offset, std::size_t bytes) {
  try {
    buffer.recv(peer.member, slot, offset, bytes);
    if (slot != kFarewellSlot) traffic_.bytes_received += bytes;
  } catch (const std::exception&) {
    lose(peer);
  }
}

std::string Group::operation_text() const { return text_of(own_.operation); }

void Group::expect(Heard heard, Peer& peer) {
  if (heard == Heard::yes) return;
  if (heard == Heard::gone) lose(peer);
  fail(name_of(peer.member) + " did not answer in " + operation_text() + " for " +
       std::to_string(options_.deadline.count()) + " ms");
}

// What the peer said before it left.
std::optional<std::string> Group::farewell_of(Peer& peer) {
  if (watch_->receive(*peer.farewell_in_buffer, Clock::now() + kLook) != Heard::yes) return {};
  Farewell& farewell = peer.farewell_in;
  if (farewell.magic != std::array<char, 4>{'T', 'W', 'F', '1'}) return {};
  farewell.why.back() = '\0';
  std::string why = farewell.why.data();
  std::replace_if(
      why.begin(), why.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
  return why;
}

// Its connection is closed: did it say why, or does another know more?
void Group::lose(Peer& peer) {
  if (std::optional<std::string> why = farewell_of(peer)) fail(*why);
  for (const auto& other : peers_) {
    if (other.get() == &peer) continue;
    if (std::optional<std::string> why = farewell_of(*other)) fail(*why);
  }
  fail(name_of(peer.member) + " is gone: its connection closed in " + operation_text());
}

void Group::fail(const std::string& what) {
  failure_ = what.starts_with(options_.name) ? what : options_.name + ": " + what;
  say_farewell();
  drop();
  throw Error(failure_);
}

// Waits a moment until it has left and the others have said theirs: a connection that closes while
// something is on its way loses both.
void Group::say_farewell() {
  farewell_.magic = {'T', 'W', 'F', '1'};
  failure_.copy(farewell_.why.data(), farewell_.why.size() - 1);
  std::vector<Peer*> told;
  for (const auto& peer : peers_) {
    try {
      peer->farewell_out_buffer->send(peer->member, kFarewellSlot, 0, sizeof(Farewell));
      told.push_back(peer.get());
    } catch (const std::exception&) {  // it is gone already
    }
  }
  const Clock::time_point end = Clock::now() + kFarewellMost;
  for (Peer* peer : told) watch_->send(*peer->farewell_out_buffer, end);
  for (Peer* peer : told) watch_->receive(*peer->farewell_in_buffer, end);
}

void Group::drop() {
  peers_.clear();
  mesh_.reset();
}

}  // namespace thinwire::near
