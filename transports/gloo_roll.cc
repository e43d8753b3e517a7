#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "thinwire/hash.h"
#include "transports/gloo_roll_internal.h"

namespace thinwire::near {
namespace {

using std::chrono::milliseconds;

constexpr char kMagic[] = "TWHELLO2";
constexpr std::size_t kTextMax = 64u << 10;
constexpr milliseconds kPause{5};
constexpr milliseconds kLastWord{200};  // until the others have read why
// A hello that does not fit may be of an earlier run: its successor has so long to replace it.
constexpr milliseconds kStaleMost{2'000};

std::string number(int rank) { return std::to_string(rank); }

std::string text_of(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << value;
  return text.str();
}

template <class T>
void put(Bytes& to, const T& value) {
  to.resize(to.size() + sizeof value);
  std::memcpy(to.data() + to.size() - sizeof value, &value, sizeof value);
}

void put_text(Bytes& to, const std::string& text) {
  put(to, static_cast<std::uint32_t>(text.size()));
  const ByteView bytes = std::as_bytes(std::span<const char>(text));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
bool take(ByteView& from, T& value) {
  if (from.size() < sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return true;
}

bool take_text(ByteView& from, std::string& text) {
  std::uint32_t size = 0;
  if (!take(from, size) || size > kTextMax || size > from.size()) return false;
  text.assign(reinterpret_cast<const char*>(from.data()), size);
  from = from.subspan(size);
  return true;
}

// The first line of one that the other lacks.
std::string first_difference(const std::string& one, const std::string& other) {
  std::istringstream ours(one);
  std::istringstream theirs(other);
  std::string a;
  std::string b;
  while (true) {
    const bool more = static_cast<bool>(std::getline(ours, a));
    const bool others = static_cast<bool>(std::getline(theirs, b));
    if (!more) a = "nothing";
    if (!others) b = "nothing";
    if (a != b || (!more && !others)) return "'" + b + "' against '" + a + "'";
  }
}

std::uint64_t hash_of(ByteView bytes) { return hash64(bytes, 1); }

Bytes as_value(std::uint64_t value) {
  Bytes bytes;
  put(bytes, value);
  return bytes;
}

std::optional<std::uint64_t> number_at(KeyStore& store, const std::string& key) {
  const std::optional<Bytes> found = store.get(key);
  std::uint64_t value = 0;
  if (!found) return std::nullopt;
  ByteView view = *found;
  if (!take(view, value)) return std::nullopt;
  return value;
}

struct Misfit {
  int left_ms = 0;  // of the patience when it was first seen
  std::string why;
};

class Caller {
 public:
  Caller(KeyStore& store, int rank, const Hello& mine, const Patience& patience)
      : store_(store),
        rank_(rank),
        size_(static_cast<int>(mine.size)),
        mine_(mine),
        patience_(patience) {}

  Roll call() {
    store_.set("hello." + number(rank_), encode(mine_));
    while (!(rank_ == 0 ? called() : answered())) {
      if (patience_.over()) give_up();
      patience_.pause(kPause);
    }
    Roll roll{hash_of(roll_), {}};
    for (int rank = 0; rank < size_; ++rank) roll.hellos.push_back(*hello(rank));
    return roll;
  }

 private:
  std::optional<Hello> hello(int rank) {
    const std::optional<Bytes> found = store_.get("hello." + number(rank));
    if (!found) return std::nullopt;
    const Result<Hello> decoded = decode_hello(*found);
    if (decoded) return *decoded;
    Hello strange;
    strange.version = "of another kind";
    return strange;
  }

  void check_own(const Hello& found) const {
    if (found.nonce == mine_.nonce) return;
    throw UsageError("another process says too that it is rank " + number(rank_) + " at " +
                     store_.place() + "; give each its own RANK");
  }

  // Rank 0: have all said that they stand in the roll?
  bool called() {
    Bytes roll;
    missing_.clear();
    for (int rank = 0; rank < size_; ++rank) {
      const std::optional<Hello> one = hello(rank);
      if (!one) {
        missing_.push_back(rank);
        continue;
      }
      if (rank == 0) check_own(*one);
      nonces_[rank] = one->nonce;
      if (!fits(*one, rank)) missing_.push_back(rank);
      put(roll, one->nonce);
    }
    if (!missing_.empty()) return false;
    if (roll != roll_) store_.set("roll", roll_ = roll);
    for (int rank = 1; rank < size_; ++rank) {
      if (number_at(store_, "here." + number(rank)) != hash_of(roll_)) missing_.push_back(rank);
    }
    if (!missing_.empty()) return false;
    store_.set("go", as_value(hash_of(roll_)));
    return true;
  }

  // The others: has rank 0 let us go?
  bool answered() {
    if (const auto why = store_.get("no." + text_of(mine_.nonce))) {
      throw UsageError(std::string(reinterpret_cast<const char*>(why->data()), why->size()));
    }
    missing_ = {0};
    const std::optional<Hello> own = hello(rank_);
    if (own) check_own(*own);
    const std::optional<Hello> first = hello(0);
    if (!first || !fits(*first, 0)) return false;
    const std::optional<Bytes> roll = store_.get("roll");
    if (!roll || roll->size() != mine_.size * sizeof mine_.nonce) return false;
    std::uint64_t at_own = 0;
    std::memcpy(&at_own, roll->data() + rank_ * sizeof at_own, sizeof at_own);
    if (at_own != mine_.nonce) return false;
    if (*roll != roll_) {
      roll_ = *roll;
      store_.set("here." + number(rank_), as_value(hash_of(roll_)));
    }
    missing_.clear();
    return number_at(store_, "go") == hash_of(roll_);
  }

  bool fits(const Hello& hello, int other) {
    const std::string why = misfit(mine_, rank_, hello, other);
    if (why.empty()) return misfits_.erase(other), true;
    Misfit& misfit = misfits_.try_emplace(other, Misfit{patience_.left_ms(), ""}).first->second;
    misfit.why = why;
    const milliseconds since(misfit.left_ms - patience_.left_ms());
    if (store_.is_new() || since >= kStaleMost) give_up();
    return false;
  }

  // Those who came need not wait for their own patience to end.
  void tell(const std::string& why) {
    if (rank_ != 0) return;
    const ByteView bytes = std::as_bytes(std::span<const char>(why));
    for (const auto& [rank, nonce] : nonces_) {
      if (rank != 0) store_.set("no." + text_of(nonce), Bytes(bytes.begin(), bytes.end()));
    }
    std::this_thread::sleep_for(kLastWord);
  }

  [[noreturn]] void give_up() {
    if (!misfits_.empty()) {
      tell(misfits_.begin()->second.why);
      throw UsageError(misfits_.begin()->second.why);
    }
    std::string who;
    for (int rank : missing_) who += (who.empty() ? "rank " : ", rank ") + number(rank);
    if (who.empty()) who = "some of the others";
    const std::string why = who + " did not come to " + store_.place() + " in time; were all " +
                            number(size_) + " ranks started?";
    tell(why);
    throw Error(why);
  }

  KeyStore& store_;
  const int rank_;
  const int size_;
  const Hello& mine_;
  const Patience& patience_;
  Bytes roll_;
  std::vector<int> missing_;
  std::map<int, std::uint64_t> nonces_;  // rank 0's: of those who came
  std::map<int, Misfit> misfits_;
};

}  // namespace

Bytes encode(const Hello& hello) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < sizeof kMagic; ++i) put(bytes, kMagic[i]);
  put(bytes, hello.nonce);
  put(bytes, hello.size);
  put_text(bytes, hello.version);
  put_text(bytes, hello.machine);
  put_text(bytes, hello.address);
  put_text(bytes, hello.agreed);
  return bytes;
}

Result<Hello> decode_hello(ByteView bytes) {
  constexpr std::size_t kMagicBytes = sizeof kMagic - 1;
  if (bytes.size() < kMagicBytes || std::memcmp(bytes.data(), kMagic, kMagicBytes) != 0) {
    return Result<Hello>::refuse("no hello of a rank");
  }
  bytes = bytes.subspan(kMagicBytes);
  Hello hello;
  if (!take(bytes, hello.nonce) || !take(bytes, hello.size) || !take_text(bytes, hello.version) ||
      !take_text(bytes, hello.machine) || !take_text(bytes, hello.address) ||
      !take_text(bytes, hello.agreed) || !bytes.empty()) {
    return Result<Hello>::refuse("a hello cut short");
  }
  return hello;
}

std::string misfit(const Hello& mine, int rank, const Hello& hello, int other) {
  if (hello.version != mine.version) {
    return "rank " + number(other) + " runs thinwire " + hello.version + ", rank " + number(rank) +
           " " + mine.version + "; install the same version everywhere";
  }
  if (hello.size != mine.size) {
    return "rank " + number(other) + " was told of " + std::to_string(hello.size) +
           " ranks, rank " + number(rank) + " of " + std::to_string(mine.size) +
           "; give all the same WORLD_SIZE";
  }
  if (hello.agreed != mine.agreed) {
    return "rank " + number(other) + " was given other settings than rank " + number(rank) + ": " +
           first_difference(mine.agreed, hello.agreed);
  }
  return "";
}

Roll call_roll(KeyStore& store, int rank, const Hello& mine, const Patience& patience) {
  return Caller(store, rank, mine, patience).call();
}

void check_addresses(const Roll& roll) {
  for (std::size_t rank = 0; rank < roll.hellos.size(); ++rank) {
    const Hello& one = roll.hellos[rank];
    if (!one.address.starts_with("127.") && one.address != "::1") continue;
    for (const Hello& other : roll.hellos) {
      if (other.machine == one.machine) continue;
      throw UsageError("rank " + std::to_string(rank) + " has the address " + one.address +
                       " on the way to rank 0, where other machines do not reach it; give "
                       "MASTER_ADDR a name that /etc/hosts does not send to loopback, or "
                       "--near-interface the network between the ranks, as in eth0");
    }
  }
}

std::string this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return boot + " " + name;
}

}  // namespace thinwire::near
