#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "thinwire/error.h"
#include "transports/zmq.h"
#include "transports/zmq_io_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire {
namespace {

using hub::Kind;
using hub::Slot;
using std::chrono::milliseconds;

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

void check_keys(const ZmqLinkOptions& options) {
  const bool keys = !options.keys.public_key.empty() || !options.keys.secret_key.empty();
  if (keys != !options.hub_key.empty()) {
    throw UsageError(
        "a site needs the hub's public key and keys of its own, or neither; see "
        "thinwire keygen");
  }
  for (const std::string& hub : options.hubs) {
    if (keys || is_loopback(hub)) continue;
    throw UsageError("others can listen on the way to " + hub +
                     ": give this site its keys and the hub's public key; see thinwire keygen");
  }
  if (keys && !(is_zmq_key(options.keys.public_key) && is_zmq_key(options.keys.secret_key) &&
                is_zmq_key(options.hub_key))) {
    throw UsageError("a key has 40 characters of Z85; see thinwire keygen");
  }
}

ZmqLinkOptions checked(ZmqLinkOptions options) {
  if (options.hubs.empty()) throw UsageError("a site needs the address of a hub");
  for (std::string& hub : options.hubs) hub = normal_address(hub, AddressUse::dial);
  check_keys(options);
  if (options.peer_timeout < milliseconds(100)) {
    throw UsageError("the peer timeout must be 0.1 s or more");
  }
  if (options.hub_timeout < options.peer_timeout) {
    throw UsageError("the hub timeout must not be below the peer timeout");
  }
  if (options.connect_timeout <= milliseconds(0)) {
    throw UsageError("the connect timeout must be above 0");
  }
  return options;
}

hub::SiteOptions site_options(const ZmqLinkOptions& options, std::uint64_t agreement,
                              std::string agreed) {
  if (options.ranks < 1) throw UsageError("ranks must be 1 or more");
  hub::SiteOptions site;
  site.run = options.run;
  site.site = options.site;
  site.process = random_number();
  site.agreement = agreement;
  site.agreed = std::move(agreed);
  site.parts = static_cast<std::uint32_t>(options.ranks);
  site.hubs = options.hubs;
  site.connect_timeout_s = seconds(options.connect_timeout);
  site.peer_timeout_s = seconds(options.peer_timeout);
  site.hub_timeout_s = seconds(options.hub_timeout);
  site.first_round = options.first_round;
  site.gives_state = options.gives_state;
  hub::Hello hello;
  hello.run = site.run;
  hello.site = site.site;
  hello.parts = site.parts;
  hello.agreed = site.agreed;
  if (const std::string why = hub::fault(hello); !why.empty()) throw UsageError(why);
  return site;
}

class RankExchange final : public Exchange {
 public:
  RankExchange(ZmqIo& link, int rank) : link_(link), rank_(rank) {}
  int site() const override { return link_.site(); }
  int sites() const override { return link_.sites(); }
  void post(const Round& round, Bytes frame) override { link_.post(slot(round), std::move(frame)); }
  RoundResult collect(const Round& round) override {
    hub::SharedResult shared = link_.collect(slot(round));
    RoundResult result{{}, std::move(shared.absent)};
    for (const hub::SharedFrame& frame : shared.frames)
      result.frames.push_back({frame.site, frame.bytes.copy()});
    return result;
  }
  bool missed(const Round& round) const override { return link_.missed(slot(round)); }
  Traffic traffic() const override { return link_.traffic(Kind::gather, rank_); }

 private:
  // The epoch between hub and sites is another than the one in the frames.
  Slot slot(const Round& round) const {
    return {{0, round.number, round.phase}, Kind::gather, static_cast<std::uint32_t>(rank_)};
  }

  ZmqIo& link_;
  const int rank_;
};

// The mean over the sites that took part, made at the hub in the order of sites. Nobody is waited
// for longer than a round's deadline, so a mean may be over fewer sites, the own one perhaps not
// among them; all get the same one.
class RankCollective final : public Collective {
 public:
  RankCollective(ZmqIo& link, int rank) : link_(link), rank_(rank) {}
  void begin_at(std::uint64_t step) { operations_ = step; }
  bool agreed() const override { return true; }  // in the hello
  int rank() const override { return link_.site(); }
  int size() const override { return link_.sites(); }

  void all_reduce_mean(Floats whole) override {
    const Slot slot{{0, operations_++, 0}, Kind::reduce, static_cast<std::uint32_t>(rank_)};
    hub::GrowingBytes frame;
    frame.append(std::as_bytes(whole), whole.size_bytes());
    link_.post(slot, std::move(frame));
    const hub::SharedResult mean = link_.collect(slot);
    if (mean.frames.empty()) {  // nobody's frame could be used
      std::fill(whole.begin(), whole.end(), 0.0f);
      return;
    }
    const hub::SharedBytes& bytes = mean.frames[0].bytes;
    if (bytes.size() != whole.size_bytes()) {
      throw Error("the other sites average " + std::to_string(bytes.size() / sizeof(float)) +
                  " values where this one has " + std::to_string(whole.size()));
    }
    if (!bytes.empty()) std::memcpy(whole.data(), bytes.data(), bytes.size());
  }

  void reduce_scatter_mean(ConstFloats, Floats, Cuts) override { refuse("reduce_scatter_mean"); }
  void all_gather(ConstFloats, Floats, Cuts) override { refuse("all_gather"); }
  void broadcast(Floats, int) override { refuse("broadcast"); }
  void barrier() override { refuse("barrier"); }
  Traffic traffic() const override { return link_.traffic(Kind::reduce, rank_); }

 private:
  [[noreturn]] static void refuse(const std::string& operation) {
    throw Error("the far link knows all_reduce_mean alone, not " + operation);
  }

  ZmqIo& link_;
  const int rank_;
  std::uint64_t operations_ = 0;
};

class RankStates final : public StateLink {
 public:
  RankStates(ZmqIo& link, RankCollective& collective, int rank)
      : link_(link), collective_(collective), rank_(rank) {}
  bool enters_late() const override { return link_.enters_late(); }
  RunState take(int in_flight) override {
    RunState state = link_.take(rank_, in_flight);
    collective_.begin_at(state.step);
    return state;
  }
  void at_step(std::uint64_t step, std::function<Bytes()> pack) override {
    link_.at_step(rank_, step, std::move(pack));
  }
  void give_up_replica(const std::string& why) override { link_.give_up_replica(why); }

 private:
  ZmqIo& link_;
  RankCollective& collective_;
  const int rank_;
};

}  // namespace

class ZmqLink::Body {
 public:
  Body(const ZmqLinkOptions& options, std::uint64_t agreement, std::string agreed)
      : io(options, site_options(options, agreement, std::move(agreed))) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      exchanges.push_back(std::make_unique<RankExchange>(io, rank));
      collectives.push_back(std::make_unique<RankCollective>(io, rank));
      collectives.back()->begin_at(options.first_round);
      states.push_back(std::make_unique<RankStates>(io, *collectives.back(), rank));
    }
    io.wait_until_begun();
  }

  ZmqIo io;
  std::vector<std::unique_ptr<Exchange>> exchanges;
  std::vector<std::unique_ptr<RankCollective>> collectives;
  std::vector<std::unique_ptr<StateLink>> states;
};

ZmqLink::ZmqLink(ZmqLinkOptions options, std::uint64_t agreement, std::string agreed)
    : body_(std::make_unique<Body>(checked(std::move(options)), agreement, std::move(agreed))) {}
ZmqLink::~ZmqLink() = default;
int ZmqLink::site() const { return body_->io.site(); }
int ZmqLink::sites() const { return body_->io.sites(); }
Exchange& ZmqLink::exchange(int rank) { return *body_->exchanges.at(rank); }
Collective& ZmqLink::collective(int rank) { return *body_->collectives.at(rank); }
Bytes ZmqLink::save_rounds(int rank, std::uint64_t from) const {
  return body_->io.save_rounds(rank, from);
}
StateLink& ZmqLink::states(int rank) { return *body_->states.at(rank); }

}  // namespace thinwire
