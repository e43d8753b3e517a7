#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/log.h"
#include "transports/hub_core_internal.h"
#include "transports/zmq_io_internal.h"

namespace thinwire {
namespace {

constexpr int kMessagesAtOnce = 64;  // then sending and timers have their turn
constexpr double kFlush = 1.0;       // s, for the end of what is said, and a goodbye
// From the hub: no more than it holds, and what is around it.
const std::size_t kMessageMax = hub::CoreOptions{}.bytes_max + (64 << 10);
constexpr std::size_t kLengthBytes = 8;
constexpr int kLingerMs = 500;                 // then inside ZeroMQ
constexpr std::chrono::seconds kLookAgain{1};  // a lost wake-up costs no more

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ZmqIo::ZmqIo(ZmqLinkOptions options, hub::SiteOptions site)
    : options_(std::move(options)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      site_(std::move(site), now()),
      packs_(static_cast<std::size_t>(options_.ranks)) {
  if (!wake_) throw Error("cannot make an eventfd: the process has no descriptor left");
  for (std::size_t rank = 0; rank < options_.rounds.size(); ++rank)
    restore_rounds(options_.rounds[rank], static_cast<int>(rank));
  site_.rounds().forget_halves();
  thread_ = std::jthread([this] { work(); });
}

ZmqIo::~ZmqIo() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
}

void ZmqIo::wait_until_begun() {
  std::unique_lock lock(mutex_);
  while (!site_.begun()) {
    throw_if_failed();
    changed_.wait_for(lock, kLookAgain);
  }
}

int ZmqIo::site() const {
  std::lock_guard lock(mutex_);
  return site_.site();
}

int ZmqIo::sites() const {
  std::lock_guard lock(mutex_);
  return site_.sites();
}

void ZmqIo::post(const hub::Slot& slot, hub::SharedBytes frame) {
  {
    std::lock_guard lock(mutex_);
    // The collect of that round will say so, on all ranks.
    if (site_.outdated() || has_failed()) return;
    site_.rounds().post(slot, std::move(frame));
  }
  wake();
}

hub::SharedResult ZmqIo::collect(const hub::Slot& slot) {
  std::unique_lock lock(mutex_);
  hub::SiteRounds& rounds = site_.rounds();
  if (!site_.outdated() && rounds.too_old(slot)) {
    throw Error("round " + std::to_string(slot.round.number) +
                " is no longer kept; it was collected before");
  }
  if (!rounds.ready(slot) && !site_.outdated()) {
    rounds.wait_for(slot);
    wake();
  }
  while (!rounds.ready(slot)) {
    throw_if_failed();
    if (site_.outdated()) throw Outdated("this site " + site_.why_outdated());
    // In its first phase a step has not moved the replica yet.
    const int rank = static_cast<int>(slot.part);
    if (slot.round.phase == 0 && site_.state().wanted(slot.part)) {
      give_state(lock, rank);
    } else {
      changed_.wait_for(lock, kLookAgain);
    }
  }
  return rounds.collect(slot);
}

bool ZmqIo::missed(const hub::Slot& slot) const {
  std::lock_guard lock(mutex_);
  return site_.rounds().missed(slot);
}

bool ZmqIo::enters_late() const {
  std::lock_guard lock(mutex_);
  return site_.entered_late();
}

void ZmqIo::at_step(int rank, std::uint64_t step, std::function<Bytes()> pack) {
  packs_[static_cast<std::size_t>(rank)] = std::move(pack);
  std::unique_lock lock(mutex_);
  site_.state().at_step(static_cast<std::uint32_t>(rank), step);
  if (site_.state().wanted(static_cast<std::uint32_t>(rank))) give_state(lock, rank);
}

// Copied and hashed without the lock; only this thread changes what the rank has.
void ZmqIo::give_state(std::unique_lock<std::mutex>& lock, int rank) {
  lock.unlock();
  Bytes state = packs_[static_cast<std::size_t>(rank)]();
  const std::uint64_t hash = hash64(ByteView(state));
  lock.lock();
  site_.state().give(static_cast<std::uint32_t>(rank), std::move(state), hash);
  wake();
}

// The last rank to come switches the site over: until then others may still collect old rounds.
RunState ZmqIo::take(int rank, int in_flight) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = takeovers_;
  ++takers_;
  while (takeovers_ == before) {
    throw_if_failed();
    if (takers_ == packs_.size() && site_.state().complete()) {
      taken_ = site_.resume(static_cast<std::uint64_t>(in_flight));
      takers_ = 0;
      ++takeovers_;
      wake();
      changed_.notify_all();
      break;
    }
    changed_.wait_for(lock, kLookAgain);
  }
  return std::move(taken_[static_cast<std::size_t>(rank)]);
}

// Each result as a message of the far link, its length before it.
Bytes ZmqIo::save_rounds(int rank, std::uint64_t from) const {
  std::lock_guard lock(mutex_);
  Bytes all;
  for (hub::Bundle& bundle : site_.rounds().results(static_cast<std::uint32_t>(rank), from)) {
    const Bytes message = hub::encode(std::move(bundle));
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      all.push_back(static_cast<std::byte>(message.size() >> (8 * i)));
    all.insert(all.end(), message.begin(), message.end());
  }
  return all;
}

void ZmqIo::restore_rounds(ByteView all, int rank) {
  while (!all.empty()) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes && i < all.size(); ++i)
      length |= std::to_integer<std::size_t>(all[i]) << (8 * i);
    const bool fits = all.size() >= kLengthBytes && length <= all.size() - kLengthBytes;
    Result<hub::Message> message =
        hub::decode(all.subspan(fits ? kLengthBytes : 0, fits ? length : 0));
    auto* bundle = message ? std::get_if<hub::Bundle>(&*message) : nullptr;
    if (!bundle || bundle->slot.part != static_cast<std::uint32_t>(rank)) {
      log_warn("site " + options_.site + ": saved rounds of rank " + std::to_string(rank) +
               " are of another version or damaged; others cannot get them from here");
      return;
    }
    site_.rounds().restore(std::move(*bundle));
    all = all.subspan(kLengthBytes + length);
  }
}

void ZmqIo::give_up_replica(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    site_.give_up_replica(why);
  }
  wake();
}

Traffic ZmqIo::traffic(hub::Kind kind, int rank) const {
  std::lock_guard lock(mutex_);
  return site_.rounds().traffic(kind, static_cast<std::uint32_t>(rank));
}

bool ZmqIo::has_failed() const {
  return (options_.stop && *options_.stop) || io_failure_ || site_.failure();
}

// From the first failure on no message counts: what one rank has waited for in vain comes to none.
void ZmqIo::throw_if_failed() {
  sealed_ = sealed_ || has_failed();
  if (options_.stop && *options_.stop) throw Interrupted("stopped by the user");
  if (io_failure_) std::rethrow_exception(io_failure_);
  if (!site_.failure()) return;
  if (site_.failure()->hub_lost) throw HubLost(site_.failure()->why);
  throw Error(site_.failure()->why);
}

void ZmqIo::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.number(), &one, sizeof one));
}

void ZmqIo::work() {
  try {
    while (turn()) {
    }
    farewell();
  } catch (const std::exception& error) {
    std::lock_guard lock(mutex_);
    io_failure_ =
        std::make_exception_ptr(Error(std::string("the far link broke: ") + error.what()));
  }
  changed_.notify_all();
}

bool ZmqIo::turn() {
  hub::Site::Plan plan;
  double next = 0.0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    site_.tick(now());
    plan = site_.plan();
    next = site_.next_tick();
    for (const std::string& line : site_.take_log())
      log_info("site " + options_.site + ": " + line);
  }
  changed_.notify_all();
  follow(plan);
  send();
  wait(next - now());
  if (dealer_) hear_events();
  if (dealer_) hear_messages();
  return true;
}

void ZmqIo::follow(const hub::Site::Plan& plan) {
  if (plan.connection == connection_) return;
  pending_.reset();
  cutter_.reset();
  dealer_.reset();
  connection_ = plan.connection;
  if (connection_ == 0) return;
  dealer_.emplace(context_, options_, options_.hubs[plan.hub]);
  flow_.emplace(wake_.number());
  joiner_.emplace(kMessageMax);
}

void ZmqIo::send() {
  for (int i = 0; i < kMessagesAtOnce && dealer_; ++i) {
    if (!pending_ && !take_next()) return;
    if (!dealer_->socket().send(*pending_, zmq::send_flags::dontwait)) return;
    pending_.reset();
  }
  if (dealer_) wake();  // there may be more
}

// Short messages go in between the pieces of a long one; the next long one waits for its end.
bool ZmqIo::take_next() {
  if (!flow_->has_room()) return false;
  {
    std::lock_guard lock(mutex_);
    using Length = hub::Site::Length;
    std::optional<hub::Encoded> message =
        site_.next_out(cutter_ ? Length::in_between : Length::any);
    if (message && message->size() <= hub::kPieceBytes) {
      pending_ = flow_->wrap(message->shared());
      return true;
    }
    if (message) cutter_.emplace(++cut_, std::move(*message));
  }
  if (!cutter_) return false;
  pending_ = flow_->wrap(cutter_->next());
  if (!cutter_->done()) return true;
  cutter_.reset();
  std::lock_guard lock(mutex_);
  site_.tick(now());
  site_.said();
  return true;
}

void ZmqIo::wait(double most_s) {
  std::vector<zmq::pollitem_t> items = {{nullptr, wake_.number(), ZMQ_POLLIN, 0}};
  if (dealer_) {
    const int events = ZMQ_POLLIN | (pending_ ? ZMQ_POLLOUT : 0);
    items.push_back({dealer_->socket().handle(), 0, static_cast<short>(events), 0});
    items.push_back({dealer_->monitor().handle(), 0, ZMQ_POLLIN, 0});
  }
  try {
    zmq::poll(items, std::chrono::milliseconds(
                         static_cast<int>(std::ceil(std::max(most_s, 0.0) * 1000.0))));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
  std::uint64_t times = 0;
  static_cast<void>(!::read(wake_.number(), &times, sizeof times));
}

void ZmqIo::hear_events() {
  for (const DealerEvent& event : dealer_->take_events()) {
    std::lock_guard lock(mutex_);
    site_.tick(now());
    using What = DealerEvent::What;
    if (event.what == What::connected) site_.connected();
    if (event.what == What::lost) site_.lost(event.why);
    if (event.what == What::strange) site_.lost(event.why, true);
    if (event.what == What::turned_away) site_.turned_away(event.why);
  }
}

void ZmqIo::hear_messages() {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    zmq::message_t message;
    if (!dealer_->socket().recv(message, zmq::recv_flags::dontwait)) return;
    const ByteView bytes(static_cast<const std::byte*>(message.data()), message.size());
    if (!hub::is_piece(bytes)) {
      hear(hub::decode(bytes), bytes.size());
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      site_.tick(now());
      if (site_.plan().connection == connection_) site_.alive();
    }
    Result<std::optional<hub::GrowingBytes>> joined = joiner_->take(bytes);
    if (!joined) log_warn("site " + options_.site + ": the hub sends " + joined.why());
    if (!joined || !*joined) continue;
    const hub::SharedBytes whole(std::move(**joined));
    hear(hub::decode_shared(whole), whole.size());
  }
}

void ZmqIo::hear(Result<hub::Message> said, std::size_t bytes) {
  if (!said) {
    log_warn("site " + options_.site + ": a message of the hub is refused: " + said.why());
    return;
  }
  std::lock_guard lock(mutex_);
  site_.tick(now());
  if (!sealed_ && site_.plan().connection == connection_) site_.receive(std::move(*said), bytes);
}

// What is on its way and the goodbye are worth a moment, no more.
void ZmqIo::farewell() {
  const double end = now() + kFlush;
  const auto flush = [&] {
    for (send(); sending() && now() < end; send()) wait(end - now());
  };
  flush();
  {
    std::lock_guard lock(mutex_);
    site_.leave();
  }
  flush();
  pending_.reset();
  if (dealer_) dealer_->socket().set(zmq::sockopt::linger, kLingerMs);
  dealer_.reset();
}

}  // namespace thinwire
