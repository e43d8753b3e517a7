#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "transports/gloo_group_internal.h"
#include "transports/gloo_slots_internal.h"

namespace thinwire::near {
namespace {

using std::chrono::milliseconds;

// After the deadline, for each rank that is late: who misses one alone knows best and speaks first.
constexpr milliseconds kGrace{75};
constexpr milliseconds kGraceMost{250};
constexpr milliseconds kFarewellMost{100};
constexpr milliseconds kStep{50};  // of a wait, after which others are looked at
constexpr milliseconds kPause{5};
constexpr milliseconds kLook{2};  // is it there already?
constexpr char kFarewellMagic[] = "TWF1";

const char* text_of(Operation operation) {
  constexpr std::array<const char*, 7> kNames{
      "nothing", "reduce_scatter_mean", "all_gather", "all_reduce_mean", "broadcast",
      "barrier", "all_to_all"};
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
    expect_header(peer);
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
  for (const auto& peer : peers_) await(*peer, *peer->header_out_buffer, true);
}

void Group::hear_headers() {
  std::vector<Peer*> late;
  Clock::time_point end = deadline();
  for (const auto& peer : peers_) {
    if (wait_for(*peer, *peer->header_in_buffer, false, end) == Heard::yes) continue;
    late.push_back(peer.get());
    end = Clock::now() + kLook;  // the others are there already or late too
  }
  if (!late.empty()) miss(late);
}

// Everyone sees all headers and finds the same first difference.
void Group::compare_headers() {
  std::vector<Header> all(size(), own_);
  for (const auto& peer : peers_) {
    all[peer->member] = peer->header_in;
    expect_header(*peer);
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

// Of the next operation. Whoever needed nothing more may have left: that matters when it begins.
void Group::expect_header(Peer& peer) {
  try {
    peer.header_in_buffer->recv(peer.member, kHeaderSlot, 0, sizeof(Header));
    traffic_.bytes_received += sizeof(Header);
  } catch (const std::exception&) {
  }
}

std::string Group::operation_text() const { return text_of(own_.operation); }

std::string Group::name_of(int member) const {
  return "rank " + std::to_string(options_.members[member]);
}

Heard Group::wait_for(Peer& peer, gloo::transport::UnboundBuffer& buffer, bool sends,
                      Clock::time_point end) {
  while (true) {
    const Clock::time_point step = std::min(end, Clock::now() + kStep);
    const Heard heard = sends ? watch_->send(buffer, step) : watch_->receive(buffer, step);
    if (heard == Heard::gone) lose(peer);
    if (heard == Heard::yes || Clock::now() >= end) return heard;
    hear_farewells();
    // Gloo does not end the wait for a message that was on its way when the connection closed.
    if (look(peer) == Heard::gone) lose(peer);
  }
}

void Group::await(Peer& peer, gloo::transport::UnboundBuffer& buffer, bool sends) {
  if (wait_for(peer, buffer, sends, deadline()) == Heard::yes) return;
  // It was here when the operation began: nobody else is to blame.
  fail(name_of(peer.member) + " did not answer in " + operation_text() + " for " +
           std::to_string(options_.deadline.count()) + " ms",
       {&peer});
}

Heard Group::look(Peer& peer) {
  if (peer.left) return Heard::yes;
  const Heard heard = watch_->receive(*peer.farewell_in_buffer, Clock::now() + kLook);
  peer.left = heard == Heard::yes;
  return heard;
}

void Group::hear_farewells() {
  for (const auto& peer : peers_) {
    if (look(*peer) != Heard::yes) continue;
    Farewell& farewell = peer->farewell_in;
    if (std::memcmp(farewell.magic.data(), kFarewellMagic, farewell.magic.size()) != 0) continue;
    farewell.why.back() = '\0';
    std::string why = farewell.why.data();
    std::replace_if(
        why.begin(), why.end(), [](unsigned char c) { return c < 32 || c == 127; }, '?');
    fail(why);
  }
}

// Its connection is closed: did it or another one say why?
void Group::lose(Peer& peer) {
  hear_farewells();
  fail(name_of(peer.member) + " is gone: its connection closed in " + operation_text());
}

// Those who are late may only be waiting for somebody themselves, in the operation before this one,
// and will say so now.
void Group::miss(const std::vector<Peer*>& late) {
  const Clock::time_point end =
      Clock::now() + std::min(kGraceMost, kGrace * static_cast<int>(late.size()));
  while (Clock::now() < end) {
    hear_farewells();
    std::this_thread::sleep_for(kPause);
  }
  std::string who;
  for (const Peer* peer : late) who += (who.empty() ? "" : ", ") + name_of(peer->member);
  fail(who + " did not come to " + operation_text() + " within " +
           std::to_string(options_.deadline.count()) + " ms",
       late);
}

void Group::fail(const std::string& what, const std::vector<Peer*>& late) {
  failure_ = what.starts_with(options_.name + ": ") ? what : options_.name + ": " + what;
  say_farewell(late);
  drop();
  throw Error(failure_);
}

// Waits a moment until it has gone out and the others have said theirs: a connection that closes
// while something is on its way loses both. Those who are late are not waited for again.
void Group::say_farewell(const std::vector<Peer*>& late) {
  std::memcpy(farewell_.magic.data(), kFarewellMagic, farewell_.magic.size());
  failure_.copy(farewell_.why.data(), farewell_.why.size() - 1);
  std::vector<Peer*> told;
  for (const auto& peer : peers_) {
    try {
      peer->farewell_out_buffer->send(peer->member, kFarewellSlot, 0, sizeof(Farewell));
    } catch (const std::exception&) {
      continue;  // it is gone already
    }
    if (std::find(late.begin(), late.end(), peer.get()) == late.end()) told.push_back(peer.get());
  }
  const Clock::time_point end = Clock::now() + kFarewellMost;
  for (Peer* peer : told) watch_->send(*peer->farewell_out_buffer, end);
  for (Peer* peer : told) {
    if (!peer->left) watch_->receive(*peer->farewell_in_buffer, end);
  }
}

void Group::drop() {
  peers_.clear();
  mesh_.reset();
}

}  // namespace thinwire::near
