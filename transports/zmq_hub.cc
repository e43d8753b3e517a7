#include <sys/eventfd.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/log.h"
#include "transports/descriptor_internal.h"
#include "transports/hub_core_internal.h"
#include "transports/metrics_server_internal.h"
#include "transports/zmq_hub_options_internal.h"
#include "transports/zmq_peers_internal.h"
#include "transports/zmq_security_internal.h"
#include "transports/zmq_settings_internal.h"
#include "transports/zmq_watch_internal.h"

namespace thinwire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kEnvelope = 64 << 10;  // bytes of a message around its frame, at most
constexpr std::size_t kShort = 4 << 10;      // bytes of a message that overtakes long ones
constexpr int kMessagesAtOnce = 64;          // then timers and the other sockets have their turn
constexpr double kWaitMax = 1.0;             // s
constexpr double kRetry = 0.1;               // s, for peers that took nothing
constexpr double kProbeAfter = 0.1;          // s; by then ZeroMQ knows which connection ended
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kFlush = 0.5;  // s, at the end
constexpr std::size_t kQueueBytesMin = 64u << 20;
constexpr double kRefusalWindow = 10.0;  // s
constexpr int kRefusalLines = 10;        // of the log in a window

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

hub::CoreOptions core_options(const ZmqHubOptions& options) {
  hub::CoreOptions core;
  core.run = options.run;
  core.hub = random_number();
  core.sites = options.sites;
  core.min_sites = options.min_sites;
  // ZmqPeers names a peer by its address and a number.
  core.address = [](const hub::Peer& peer) { return peer.substr(0, peer.find('#')); };
  core.peer_timeout_s = seconds(options.peer_timeout);
  core.round_deadline_s = seconds(options.round_deadline);
  core.shortest_s = std::min(core.shortest_s, core.round_deadline_s);
  return core;
}

// Says who was turned away, in few lines however many come.
class RefusalLog {
 public:
  void add(double time, const std::string& line) {
    if (time >= window_end_) {
      if (unsaid_ > 0) log_warn("hub: " + std::to_string(unsaid_) + " more refusals before this");
      window_end_ = time + kRefusalWindow;
      lines_ = 0;
      unsaid_ = 0;
    }
    if (lines_ >= kRefusalLines) {
      ++unsaid_;
      return;
    }
    ++lines_;
    log_warn("hub: " + line);
  }

 private:
  double window_end_ = 0.0;
  int lines_ = 0;
  std::uint64_t unsaid_ = 0;
};

const char* property(zmq::message_t& message, const char* name) {
  return zmq_msg_gets(message.handle(), name);
}

}  // namespace

class ZmqHub::Body {
 public:
  explicit Body(ZmqHubOptions options)
      : options_(checked(std::move(options))),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        door_(context_, options_.allowed,
              [this](const std::string& from, const std::string& key) {
                refuse("key", from,
                       "its key " + (key.empty() ? "is missing" : key + " is not listed"));
              }),
        router_(context_, zmq::socket_type::router),
        watch_(
            context_, router_,
            [this](const std::string& from) {
              refuse("handshake", from, "no handshake of a site: no key, or another protocol");
            },
            [this] { probe_at_ = std::min(probe_at_, now() + kProbeAfter); }),
        peers_(router_, {.wake_descriptor = wake_.number(),
                         .queue_bytes = std::max(kQueueBytesMin, 2 * options_.frame_bytes_max),
                         .message_bytes = options_.frame_bytes_max + kEnvelope}),
        core_(core_options(options_)) {
    if (!wake_) throw Error("cannot make an eventfd: the process has no descriptor left");
    bind();
    if (!options_.metrics.empty()) metrics_.emplace(options_.metrics);
  }

  void run() {
    while (!stopping_) {
      wait(until_next());
      step();
    }
    flush();
  }

  void stop() {
    stopping_ = true;
    wake();
  }

  const std::string& address() const { return address_; }
  std::string metrics_address() const { return metrics_ ? metrics_->address() : ""; }

 private:
  void bind() {
    set_common(router_, options_.peer_timeout);
    set_server_curve(router_, options_.keys);
    router_.set(zmq::sockopt::router_mandatory, true);
    try {
      router_.bind(options_.listen);
    } catch (const zmq::error_t& error) {
      throw Error("cannot listen on " + options_.listen + ": " + error.what() +
                  (error.num() == EADDRINUSE
                       ? "; is another hub running there? choose another port with --listen"
                       : "; choose another address with --listen"));
    }
    HostPort bound = parse_address(router_.get(zmq::sockopt::last_endpoint), AddressUse::listen);
    bound.host = plain_ip(bound.host);
    address_ = to_text(bound);
  }

  void wake() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_.number(), &one, sizeof one));
  }

  double until_next() const {
    const double time = now();
    double wait = std::min({kWaitMax, core_.next_tick() - time, probe_at_ - time});
    if (metrics_) wait = std::min(wait, metrics_->next_deadline() - time);
    if (!peers_.idle()) wait = std::min(wait, kRetry);
    return std::max(wait, 0.0);
  }

  void wait(double most) {
    std::vector<zmq::pollitem_t> items = {{router_.handle(), 0, ZMQ_POLLIN, 0},
                                          {door_.socket().handle(), 0, ZMQ_POLLIN, 0},
                                          {watch_.socket().handle(), 0, ZMQ_POLLIN, 0},
                                          {nullptr, wake_.number(), ZMQ_POLLIN, 0}};
    std::vector<pollfd> files;
    if (metrics_) metrics_->wishes(files);
    for (const pollfd& file : files) {
      const int events = (file.events & POLLOUT) != 0 ? ZMQ_POLLOUT : ZMQ_POLLIN;
      items.push_back({nullptr, file.fd, static_cast<short>(events), 0});
    }
    const auto wait_ms = std::chrono::milliseconds(static_cast<int>(std::ceil(most * 1000.0)));
    try {
      zmq::poll(items, wait_ms);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
    std::uint64_t times = 0;
    static_cast<void>(!::read(wake_.number(), &times, sizeof times));
  }

  void step() {
    door_.answer();
    watch_.read();
    for (int i = 0; i < kMessagesAtOnce && receive(); ++i) {
    }
    const double time = now();
    if (time >= core_.next_tick()) send(core_.tick(time));
    if (time >= probe_at_) probe();
    peers_.send_waiting();
    for (const ZmqPeers::Lost& lost : peers_.take_lost()) {
      core_.gone(now(), lost.peer);
      if (!lost.why.empty()) refuse("queue", lost.peer, lost.why + "; its connection is given up");
    }
    if (metrics_) metrics_->work(time, [&] { return core_.metrics_text(time); });
    for (const std::string& line : core_.take_log()) log_info("hub: " + line);
  }

  // False: there was no message.
  bool receive() {
    zmq::message_t id;
    if (!router_.recv(id, zmq::recv_flags::dontwait)) return false;
    zmq::message_t body;
    bool more = id.more();
    int parts = 0;
    while (more) {
      zmq::message_t part;
      if (!router_.recv(part, zmq::recv_flags::dontwait)) break;
      more = part.more();
      if (++parts == 1) body = std::move(part);
    }
    const std::string& peer = peers_.name_of(id, property(body, "Peer-Address"));
    if (parts != 1) {
      refuse("parts", peer, "a message of " + std::to_string(parts) + " parts");
      return true;
    }
    const char* key = property(body, "User-Id");
    const ByteView bytes(static_cast<const std::byte*>(body.data()), body.size());
    hub::is_piece(bytes) ? take_piece(peer, key, bytes)
                         : take(peer, key, bytes, hub::decode(bytes));
    return true;
  }

  void take_piece(const std::string& peer, const char* key, ByteView piece) {
    core_.alive(now(), peer);
    Result<std::optional<hub::GrowingBytes>> joined = peers_.join(peer, piece);
    if (!joined) return refuse("garbage", peer, joined.why());
    if (!*joined) return;
    const hub::SharedBytes whole(std::move(**joined));
    take(peer, key, whole, hub::decode_shared(whole));
  }

  void take(const std::string& peer, const char* key, ByteView bytes,
            Result<hub::Message> message) {
    if (!message && hub::other_version(bytes)) {
      refuse("version", peer, message.why());
      return peers_.send(peer, hub::encode(hub::Refused{message.why(), true}),
                         ZmqPeers::Haste::urgent);
    }
    if (!message) return refuse("garbage", peer, message.why());
    if (std::holds_alternative<hub::Hello>(*message)) peers_.greeted(peer);
    send(core_.receive(now(), peer, key == nullptr ? "" : key, std::move(*message)));
  }

  // Results and what is long keep their order; whatever else is said overtakes them, but a welcome
  // does not overtake what a site that calls passes over.
  void send(std::vector<hub::Out> outs) {
    using Haste = ZmqPeers::Haste;
    for (hub::Out& out : outs) {
      if (std::holds_alternative<hub::Welcome>(out.message)) peers_.welcomed(out.to);
      hub::Encoded encoded = hub::encode_shared(out.message);
      const bool waits = std::holds_alternative<hub::Closed>(out.message) ||
                         std::holds_alternative<hub::Welcome>(out.message) ||
                         encoded.size() > kShort;
      peers_.send(out.to, std::move(encoded), waits ? Haste::in_order : Haste::urgent);
    }
  }

  // A connection ended, and ZeroMQ does not say whose it was until something is sent to it.
  void probe() {
    probe_at_ = kNever;
    hub::Taken nothing;  // a site passes over what is taken of a round that it does not know
    nothing.slot.round.number = ~std::uint64_t{0};
    peers_.probe(hub::encode(nothing));
  }

  void refuse(const std::string& reason, const std::string& from, const std::string& why) {
    core_.refuse(reason);
    refusals_.add(now(), "refused " + from + ": " + why);
  }

  // What is already on its way may arrive, but the end does not wait for the slow.
  void flush() {
    const double end = now() + kFlush;
    while (!peers_.idle() && now() < end) {
      wait(std::min(0.02, end - now()));
      peers_.send_waiting();
    }
  }

  const ZmqHubOptions options_;
  std::atomic<bool> stopping_{false};
  Descriptor wake_;  // outlives the context, whose threads write to it
  RefusalLog refusals_;
  zmq::context_t context_;
  Door door_;
  zmq::socket_t router_;
  ConnectionWatch watch_;
  ZmqPeers peers_;
  double probe_at_ = kNever;
  hub::Core core_;
  std::optional<MetricsServer> metrics_;
  std::string address_;
};

ZmqHub::ZmqHub(ZmqHubOptions options) : body_(std::make_unique<Body>(std::move(options))) {}
ZmqHub::~ZmqHub() = default;
void ZmqHub::run() { body_->run(); }
void ZmqHub::stop() { body_->stop(); }
std::string ZmqHub::address() const { return body_->address(); }
std::string ZmqHub::metrics_address() const { return body_->metrics_address(); }

}  // namespace thinwire
