#include <concepts>
#include <cstring>
#include <utility>

#include "thinwire/hash.h"
#include "transports/hub_messages_internal.h"

namespace thinwire::hub {
namespace {

// magic, version, type. Refused has version 0: its layout is the same in every version.
constexpr std::size_t kHeadBytes = 3;
constexpr std::uint8_t kMagic = 0x75;
constexpr std::uint8_t kAnyVersion = 0;
constexpr std::size_t kLongRun = 64 << 10;  // is shared and not copied

template <class A, class B>
concept Is = std::same_as<std::remove_const_t<A>, B>;

// One description of each message serves counting, writing and reading.
template <class Io, Is<Slot> M>
void fields(Io& io, M& m) {
  io.number(m.round.epoch);
  io.number(m.round.number);
  io.number(m.round.phase);
  io.kind(m.kind);
  io.number(m.part);
}
template <class Io, Is<SharedFrame> M>
void fields(Io& io, M& m) {
  io.site(m.site);
  io.run(m.bytes);
}
template <class Io, Is<RoundHash> M>
void fields(Io& io, M& m) {
  fields(io, m.slot);
  io.number(m.hash);
}
template <class Io, Is<std::uint32_t> M>
void fields(Io& io, M& m) {
  io.number(m);
}
template <class Io, Is<Hello> M>
void fields(Io& io, M& m) {
  io.run(m.run);
  io.run(m.site);
  io.number(m.process);
  io.number(m.agreement);
  io.run(m.agreed);
  io.number(m.parts);
  io.number(m.next_round);
  io.list(m.ahead, 21);
  io.list(m.recent, 29);
  io.number(m.number);
  io.number(m.epoch);
  io.number(m.hubs);
  io.number(m.taking);
  io.number(m.taken);
  io.flag(m.gives);
}
template <class Io, Is<Fetch> M>
void fields(Io& io, M& m) {
  io.number(m.step);
  io.number(m.part);
  io.number(m.chunk);
  io.number(m.site);
}
template <class Io, Is<Chunk> M>
void fields(Io& io, M& m) {
  io.number(m.step);
  io.number(m.part);
  io.number(m.chunk);
  io.number(m.site);
  io.number(m.state_bytes);
  io.number(m.state_hash);
  io.number(m.hash);
  io.run(m.bytes);
}
template <class Io, class M>
requires Is<M, NoState> || Is<M, Snapshot>
void fields(Io& io, M& m) { io.number(m.step); }
template <class Io, Is<Post> M>
void fields(Io& io, M& m) {
  fields(io, m.slot);
  io.run(m.frame);
}
template <class Io, class M>
requires Is<M, Want> || Is<M, Taken> || Is<M, Missing>
void fields(Io& io, M& m) { fields(io, m.slot); }
template <class Io, Is<Bundle> M>
void fields(Io& io, M& m) {
  fields(io, m.slot);
  io.list(m.frames, 12);
  io.list(m.absent, 4);
}
template <class Io, Is<Ping> M>
void fields(Io& io, M& m) {
  io.number(m.round);
  io.number(m.taken);
  io.number(m.echo);
}
template <class Io, class M>
requires Is<M, Bye> || Is<M, AskStatus>
void fields(Io&, M&) {}
template <class Io, Is<Welcome> M>
void fields(Io& io, M& m) {
  io.number(m.site);
  io.number(m.sites);
  io.number(m.hub);
  io.number(m.next_round);
  io.number(m.epoch);
  io.number(m.takeover);
  io.number(m.lease_ms);
}
template <class Io, Is<Refused> M>
void fields(Io& io, M& m) {
  io.run(m.why);
  io.flag(m.final);
}
template <class Io, Is<Closed> M>
void fields(Io& io, M& m) {
  fields(io, m.slot);
  io.flag(m.included);
  io.list(m.frames, 12);
  io.list(m.absent, 4);
}
template <class Io, Is<Pong> M>
void fields(Io& io, M& m) {
  io.number(m.epoch);
  io.flag(m.active);
  io.number(m.token);
  io.number(m.next_round);
  io.flag(m.awaited);
}
template <class Io, Is<Status> M>
void fields(Io& io, M& m) {
  io.run(m.json);
}

class Counter {
 public:
  template <std::unsigned_integral T>
  void number(T) {
    bytes_ += sizeof(T);
  }
  void kind(Kind) { bytes_ += 1; }
  void flag(bool) { bytes_ += 1; }
  void site(int) { bytes_ += 4; }
  template <class Run>
  void run(const Run& run) {
    bytes_ += 8 + run.size();
  }
  template <class T>
  void list(const std::vector<T>& list, std::size_t) {
    bytes_ += 4;
    for (const T& item : list) fields(*this, item);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = kHeadBytes;
};

class Writer {
 public:
  explicit Writer(std::size_t bytes) { out_.reserve(bytes); }
  explicit Writer(Encoded& runs) : runs_(&runs) {}

  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void kind(Kind kind) { number(static_cast<std::uint8_t>(kind)); }
  void flag(bool flag) { number(static_cast<std::uint8_t>(flag)); }
  void site(int site) { number(static_cast<std::uint32_t>(site)); }
  template <class Run>
  void run(const Run& run) {
    number(static_cast<std::uint64_t>(run.size()));
    const ByteView bytes = std::as_bytes(std::span(run.data(), run.size()));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void run(const SharedBytes& run) {
    if (runs_ == nullptr || run.size() < kLongRun) return this->run<SharedBytes>(run);
    number(static_cast<std::uint64_t>(run.size()));
    runs_->append(take());
    runs_->append(run);
  }
  template <class T>
  void list(const std::vector<T>& list, std::size_t) {
    number(static_cast<std::uint32_t>(list.size()));
    for (const T& item : list) fields(*this, item);
  }
  Bytes take() { return std::exchange(out_, {}); }

 private:
  Bytes out_;
  Encoded* runs_ = nullptr;  // where long runs go, with what is before them
};

// After the first fault everything reads as zero and nothing is allocated.
class Reader {
 public:
  // Shared runs are parts of `whole`, or of one copy.
  Reader(ByteView bytes, const SharedBytes* whole) : bytes_(bytes), rest_(bytes) {
    if (whole != nullptr) whole_ = *whole;
  }

  template <std::unsigned_integral T>
  void number(T& value) {
    value = 0;
    if (!has(sizeof(T))) return;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(rest_[i]) << (8 * i)));
    rest_ = rest_.subspan(sizeof(T));
  }
  void skip(std::size_t bytes) { rest_ = rest_.subspan(bytes); }
  void kind(Kind& kind) { kind = bit() ? Kind::reduce : Kind::gather; }
  void flag(bool& flag) { flag = bit(); }
  void site(int& site) {
    std::uint32_t value;
    number(value);
    if (value >= kSitesMax) ok_ = false;
    site = ok_ ? static_cast<int>(value) : 0;
  }
  template <class Run>
  void run(Run& run) {
    std::uint64_t length;
    number(length);
    if (!has(length)) return;
    run.resize(static_cast<std::size_t>(length));
    if (length > 0) std::memcpy(run.data(), rest_.data(), run.size());
    rest_ = rest_.subspan(run.size());
  }
  void run(SharedBytes& run) {
    std::uint64_t length;
    number(length);
    if (!has(length)) return;
    if (length == 0) return;
    if (whole_.empty()) whole_ = SharedBytes(Bytes(bytes_.begin(), bytes_.end()));
    run = whole_.part(bytes_.size() - rest_.size(), static_cast<std::size_t>(length));
    rest_ = rest_.subspan(run.size());
  }
  // `least`: bytes of the shortest item, so that a count cannot promise more than there is.
  template <class T>
  void list(std::vector<T>& list, std::size_t least) {
    std::uint32_t count;
    number(count);
    if (count > kAheadMax || !has(count * least)) {
      ok_ = false;
      return;
    }
    list.resize(count);
    for (T& item : list) fields(*this, item);
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  bool has(std::uint64_t bytes) { return ok_ = ok_ && bytes <= rest_.size(); }
  bool bit() {
    std::uint8_t value;
    number(value);
    if (value > 1) ok_ = false;
    return value == 1;
  }

  const ByteView bytes_;
  ByteView rest_;
  SharedBytes whole_;
  bool ok_ = true;
};

template <std::size_t I = 0>
Message blank(std::size_t type) {
  if constexpr (I + 1 < std::variant_size_v<Message>) {
    if (type != I) return blank<I + 1>(type);
  }
  return Message(std::in_place_index<I>);
}

std::uint8_t version_of(const Message& message) {
  return std::holds_alternative<Refused>(message) ? kAnyVersion : kProtocol;
}

void write(Writer& writer, const Message& message) {
  TW_CHECK(fault(message).empty());
  writer.number(kMagic);
  writer.number(version_of(message));
  writer.number(static_cast<std::uint8_t>(message.index() + 1));
  std::visit([&](const auto& m) { fields(writer, m); }, message);
}

Result<Message> read(ByteView bytes, const SharedBytes* whole) {
  using Decoded = Result<Message>;
  if (bytes.size() < kHeadBytes || bytes[0] != std::byte{kMagic})
    return Decoded::refuse("not a message of thinwire's far link");
  if (other_version(bytes)) {
    return Decoded::refuse("protocol versions of the far link differ: " +
                           std::to_string(std::to_integer<int>(bytes[1])) + " there, " +
                           std::to_string(kProtocol) +
                           " here; install the same version of thinwire at the hub and all sites");
  }
  const std::size_t type = std::to_integer<std::size_t>(bytes[2]) - 1;
  if (type >= std::variant_size_v<Message>) return Decoded::refuse("unknown type of message");
  Message message = blank(type);
  if (bytes[1] != std::byte{version_of(message)})
    return Decoded::refuse("a message without its version");
  Reader reader(bytes, whole);
  reader.skip(kHeadBytes);
  std::visit([&](auto& m) { fields(reader, m); }, message);
  if (!reader.ok())
    return Decoded::refuse("a message that is cut short or has an impossible value");
  if (!reader.at_end()) return Decoded::refuse("bytes after the end of a message");
  if (std::string why = fault(message); !why.empty()) return Decoded::refuse(std::move(why));
  return message;
}

}  // namespace

std::uint64_t fold_result(std::uint64_t hash, const std::vector<SharedFrame>& frames,
                          const std::vector<std::uint32_t>& absent) {
  for (const SharedFrame& frame : frames) {
    hash = hash_fold(hash, static_cast<std::uint64_t>(frame.site));
    hash = hash_fold(hash, hash64(ByteView(frame.bytes)));
  }
  for (const std::uint32_t site : absent) hash = hash_fold(hash, ~std::uint64_t{site});
  return hash;
}

std::size_t encoded_size(const Message& message) {
  Counter counter;
  std::visit([&](const auto& m) { fields(counter, m); }, message);
  return counter.bytes();
}

Bytes encode(const Message& message) {
  Writer writer(encoded_size(message));
  write(writer, message);
  return writer.take();
}

Encoded encode_shared(const Message& message) {
  Encoded encoded;
  Writer writer(encoded);
  write(writer, message);
  encoded.append(writer.take());
  return encoded;
}

bool other_version(ByteView bytes) {
  if (bytes.size() < kHeadBytes || bytes[0] != std::byte{kMagic}) return false;
  return bytes[1] != std::byte{kProtocol} && bytes[1] != std::byte{kAnyVersion};
}

Result<Message> decode(ByteView bytes) { return read(bytes, nullptr); }

Result<Message> decode_shared(const SharedBytes& bytes) { return read(bytes, &bytes); }

}  // namespace thinwire::hub
