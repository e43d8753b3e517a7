// The I/O thread of a far link, and the ranks' way to it. post and collect may be called by any
// thread; what goes wrong in the I/O thread is thrown by the next of them. Internal to transports/.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "transports/descriptor_internal.h"
#include "transports/zmq.h"
#include "transports/zmq_dealer_internal.h"
#include "transports/zmq_flow_internal.h"
#include "transports/zmq_pieces_internal.h"
#include "transports/zmq_site_internal.h"

namespace thinwire {

class ZmqIo {
 public:
  // Options that were judged already.
  ZmqIo(ZmqLinkOptions options, hub::SiteOptions site);
  ~ZmqIo();

  void wait_until_begun();
  int site() const;
  int sites() const;

  void post(const hub::Slot& slot, hub::SharedBytes frame);
  hub::SharedResult collect(const hub::Slot& slot);
  bool missed(const hub::Slot& slot) const;

  bool enters_late() const;
  // The last closed rounds of the rank, for another process of this site.
  Bytes save_rounds(int rank, std::uint64_t from) const;
  RunState take(int rank, int in_flight);
  void at_step(int rank, std::uint64_t step, std::function<Bytes()> pack);
  void give_up_replica(const std::string& why);
  Traffic traffic(hub::Kind kind, int rank) const;

 private:
  void restore_rounds(ByteView all, int rank);
  bool has_failed() const;
  void throw_if_failed();  // callers hold mutex_
  void give_state(std::unique_lock<std::mutex>& lock, int rank);
  void wake() const;

  // Of the I/O thread.
  void work();
  bool turn();  // false: it is time to leave
  void follow(const hub::Site::Plan& plan);
  void send();
  bool take_next();  // false: there is nothing to be sent now
  bool sending() const { return dealer_ && (pending_ || cutter_); }
  void wait(double most_s);
  void hear_events();
  void hear_messages();
  void hear(Result<hub::Message> said, std::size_t bytes);
  void farewell();

  const ZmqLinkOptions options_;
  Descriptor wake_;
  mutable std::mutex mutex_;  // guards all up to io_failure_
  std::condition_variable changed_;
  hub::Site site_;
  bool stopping_ = false;
  std::size_t takers_ = 0;       // ranks that wait for the run's state
  std::uint64_t takeovers_ = 0;  // done
  std::vector<RunState> taken_;  // of the last one, by rank
  std::exception_ptr io_failure_;
  bool sealed_ = false;                        // a rank has been told of a failure
  std::vector<std::function<Bytes()>> packs_;  // each of its rank's thread alone

  // Of the I/O thread alone.
  zmq::context_t context_;
  std::uint64_t connection_ = 0;
  // Of the connection.
  std::optional<Dealer> dealer_;
  std::optional<Flow> flow_;
  std::optional<hub::Joiner> joiner_;
  std::optional<hub::Cutter> cutter_;      // the long message under way
  std::optional<zmq::message_t> pending_;  // did not fit into the socket
  std::uint64_t cut_ = 0;                  // messages

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace thinwire
