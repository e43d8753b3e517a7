// What a site holds of replicated states in transfer: copies of its own that others take over, and
// the state of others that it takes over itself. docs/far_link.md. No sockets, no clock, no locks:
// the caller passes the time and guards it. Internal to transports/.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transports/hub_messages_internal.h"

namespace thinwire::hub {

namespace state_detail {

struct Copy {
  std::vector<std::optional<Bytes>> parts;
  std::vector<std::uint64_t> hashes;
  std::size_t given = 0;
  double used_at = 0.0;
};
struct Asked {
  double at = 0.0;
};
struct TakingPart {
  bool known = false;  // the next two
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
  double at = 0.0;                       // of the last chunk that agreed with them
  Bytes begin;                           // all chunks up to the first that is not here
  std::map<std::uint64_t, Bytes> later;  // chunks beyond it
  std::map<std::uint64_t, Asked> asked;
  bool whole() const { return known && begin.size() == bytes; }
};
struct Taking {
  std::uint64_t step = 0;
  std::vector<TakingPart> parts;
};

}  // namespace state_detail

class SiteState {
 public:
  SiteState(std::uint32_t parts, double peer_timeout_s);

  // ---- the ranks' side

  // Rank `part` is at the start of that step.
  void at_step(std::uint32_t part, std::uint64_t step);
  // Is the state of the step that the rank is in wanted of it?
  bool wanted(std::uint32_t part) const;
  void give(std::uint32_t part, Bytes state, std::uint64_t hash);
  std::uint64_t position() const;  // the earliest step that a rank is in

  // ---- the hub's side

  void snapshot(std::uint64_t step);
  void fetch(const Fetch& fetch);
  // The next that is to be sent.
  std::optional<Message> next(double now);

  // ---- taking over

  void take_over(std::uint64_t step, double now);  // what is here of another step is dropped
  void chunk(Chunk chunk, double now);
  std::uint64_t taking() const { return taking_ ? taking_->step : kNoStep; }
  bool complete() const;
  double progress() const;  // 0 .. 1
  double progress_at() const { return progress_at_; }
  std::vector<Bytes> take();  // of a state that is complete; by part
  std::uint64_t bytes_received() const { return bytes_received_; }

 private:
  using Copy = state_detail::Copy;
  using Asked = state_detail::Asked;
  using TakingPart = state_detail::TakingPart;
  using Taking = state_detail::Taking;

  std::optional<Message> next_chunk(double now);
  std::optional<Message> next_request(double now);
  std::optional<std::uint64_t> due(TakingPart& part, double now);
  void drop(std::uint64_t step);
  void refuse(std::uint64_t step);
  void adapt(double took);
  void begin_anew(TakingPart& part);

  const std::uint32_t parts_;
  const double peer_timeout_s_;
  std::vector<std::optional<std::uint64_t>> at_;  // by part: the step it is in
  std::map<std::uint64_t, Copy> copies_;          // by step
  std::deque<Fetch> fetches_;
  std::deque<std::uint64_t> refusals_;  // steps
  std::optional<Taking> taking_;
  // Requests under way; grows while answers come as fast as the fastest, so that the transfer does
  // not fill the queues in front of the donors' rounds.
  double window_ = 2.0;
  std::size_t under_way_ = 0;
  double fastest_s_ = 0.0;
  double progress_at_ = 0.0;
  std::uint64_t bytes_received_ = 0;
};

}  // namespace thinwire::hub
