// How ranks are connected: they compare what they are, the first makes an id, all begin with it.
#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "thinwire/error.h"
#include "transports/nccl_mean_internal.h"
#include "transports/nccl_rank_internal.h"

namespace thinwire::near {
namespace {

constexpr std::uint32_t kToConnect = 1;

void put(std::span<char> to, const std::string& text) {
  text.copy(to.data(), std::min(text.size(), to.size() - 1));
}

// Others' bytes: ended, and nothing in them that a terminal obeys.
void clean(std::span<char> text) {
  text.back() = '\0';
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c != 0 && (c < 32 || c == 127); },
      '?');
}

std::string ranks_text(std::size_t one, std::size_t other) {
  return "ranks " + std::to_string(one) + " and " + std::to_string(other);
}

}  // namespace

NcclRank::NcclRank(Clique& clique, Collective& control, NcclOptions options)
    : clique_(clique),
      control_(control),
      options_(std::move(options)),
      seat_(clique.take(control.rank(), control.size(), options_.abort_deadline)),
      exceptions_(std::uncaught_exceptions()),
      scratch_(clique.api(), options_.device),
      in_(clique.api(), options_.device),
      out_(clique.api(), options_.device) {
  try {
    if (options_.piece == 0) throw UsageError("a piece has 1 float or more");
    if (static_cast<std::size_t>(size()) > kNcclRanksMax) {
      throw UsageError("a site over NCCL has at most " + std::to_string(kNcclRanksMax) + " ranks");
    }
    connect();
  } catch (...) {  // no destructor will come
    clique_.leave(seat_);
    throw;
  }
}

NcclRank::~NcclRank() {
  // Others must not wait for a rank that is being torn down.
  if (std::uncaught_exceptions() > exceptions_ && !clique_.failed()) {
    clique_.give_up(seat_, options_.name + ": rank " + std::to_string(rank()) + " has given up");
  }
  // Inside, so that nobody aborts it meanwhile.
  if (clique_.enter(seat_, seat_.step)) {
    for (NcclMemory* memory : {&scratch_, &in_, &out_}) memory->withdraw(comm());
    clique_.exit(seat_);
  }
  clique_.leave(seat_);
}

void NcclRank::rebuild() {
  if (size() == 1) return;
  if (!clique_.failed()) {
    last_failure_ = options_.name + ": rank " + std::to_string(rank()) + " connects anew";
    clique_.give_up(seat_, last_failure_);
  }
  for (NcclMemory* memory : {&scratch_, &in_, &out_}) memory->withdraw(nullptr);
  connect();
}

NcclWord NcclRank::own_word(std::uint32_t purpose) const {
  NcclWord word;
  word.purpose = purpose;
  word.number = std::max(number_, clique_.opened()) + purpose;
  word.step = seat_.step;
  word.version = static_cast<std::uint32_t>(clique_.api().version());
  word.sums = static_cast<std::uint32_t>(options_.sums);
  word.piece = options_.piece;
  word.device = options_.device.index();
  put(word.identity, clique_.api().identity(options_.device));
  put(word.why, last_failure_);
  return word;
}

std::vector<NcclWord> NcclRank::meet(const NcclWord& mine) {
  constexpr std::size_t kFloats = sizeof(NcclWord) / sizeof(float);
  std::vector<float> all(kFloats * size());
  std::vector<std::size_t> cuts{0};
  for (int member = 0; member < size(); ++member) cuts.push_back(cuts.back() + kFloats);
  const Floats own = Floats(all).subspan(cuts[rank()], kFloats);
  std::memcpy(own.data(), &mine, sizeof mine);
  control_.all_gather(own, all, cuts);
  std::vector<NcclWord> words(size());
  std::memcpy(static_cast<void*>(words.data()), all.data(), all.size() * sizeof(float));
  for (NcclWord& word : words) {
    if (word.magic != mine.magic) throw Error(options_.name + ": a rank speaks another protocol");
    clean(word.identity);
    clean(word.why);
  }
  return words;
}

// Everyone sees all words and finds the same first difference.
void NcclRank::compare(const std::vector<NcclWord>& words) const {
  for (std::size_t one = 1; one < words.size(); ++one) {
    if (words[one].version != words[0].version) {
      throw UsageError(options_.name + ": rank " + std::to_string(one) + " has NCCL " +
                       nccl_version_text(static_cast<int>(words[one].version)) +
                       " where rank 0 has " +
                       nccl_version_text(static_cast<int>(words[0].version)) +
                       "; install the same version everywhere");
    }
    if (words[one].sums != words[0].sums || words[one].piece != words[0].piece) {
      throw UsageError(options_.name + ": " + ranks_text(0, one) +
                       " were given other sums or pieces; give all the same options");
    }
    for (std::size_t other = 0; other < one; ++other) {
      if (words[one].identity[0] == '\0' || words[one].identity != words[other].identity) continue;
      throw UsageError(options_.name + ": " + ranks_text(other, one) +
                       " of this site are both on CUDA device " +
                       std::to_string(words[one].device) + " (" + words[one].identity.data() +
                       "); NCCL needs one device a rank: give each its own, or use --near gloo");
    }
  }
}

// Whether rank 0 has one is part of what it hands round.
NcclId NcclRank::share_id() {
  struct Said {
    NcclId id = {};
    std::array<char, 256> why = {};
  } said;
  if (rank() == 0) {
    const NcclResult result = clique_.api().unique_id(said.id);
    if (result != NcclResult::ok) {
      put(said.why, std::string(text_of(result)) + ": " + clique_.api().last_error(nullptr));
    }
  }
  std::array<float, sizeof(Said) / sizeof(float)> words;
  std::memcpy(words.data(), &said, sizeof said);
  control_.broadcast(words, 0);
  std::memcpy(static_cast<void*>(&said), words.data(), sizeof said);
  clean(said.why);
  if (said.why[0] == '\0') return said.id;
  throw Error(options_.name + ": NCCL gives rank 0 no id (" + said.why.data() + ")");
}

void NcclRank::connect() {
  if (size() == 1) return;
  std::vector<NcclWord> words;
  do {  // others may still be finding out what went wrong
    words = meet(own_word(kToConnect));
  } while (std::ranges::any_of(words, [](const auto& one) { return one.purpose != kToConnect; }));
  compare(words);
  number_ = 0;
  for (const NcclWord& word : words) number_ = std::max(number_, word.number);
  const NcclId id = share_id();
  clique_.open(seat_, number_);
  sequence_ = 0;
  guarded([&] {
    for (NcclMemory* memory : {&scratch_, &in_, &out_}) memory->make(options_.piece * size());
    if (!clique_.enter(seat_, {})) throw NcclTrouble{.kind = NcclTrouble::Kind::told};
    NcclComm* made = nullptr;
    const NcclResult result = api().init(made, size(), id, rank(), options_.device);
    clique_.set_comm(seat_, made);
    call(result);
    if (made == nullptr) throw NcclTrouble{.text = "NCCL made no communicator"};
    wait(options_.connect_timeout);
    for (NcclMemory* memory : {&scratch_, &in_, &out_}) memory->enroll(comm());
    clique_.exit(seat_);
  });
  last_failure_.clear();
}

}  // namespace thinwire::near

namespace thinwire {

NcclNear::NcclNear(NcclClique& clique, Collective& control, const NcclOptions& options)
    : rank_(std::make_unique<near::NcclRank>(*clique.clique_, control, options)) {}
NcclNear::~NcclNear() = default;

void NcclNear::rebuild() { rank_->rebuild(); }
int NcclNear::rank() const { return rank_->rank(); }
int NcclNear::size() const { return rank_->size(); }
bool NcclNear::carries(Device device) const {
  return device.is_host() || device == rank_->device();
}
void NcclNear::reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) {
  rank_->reduce_scatter_mean(whole, mine, cuts);
}
void NcclNear::all_gather(ConstFloats mine, Floats whole, Cuts cuts) {
  rank_->all_gather(mine, whole, cuts);
}
void NcclNear::all_reduce_mean(Floats whole) { rank_->all_reduce_mean(whole); }
void NcclNear::broadcast(Floats data, int root) { rank_->broadcast(data, root); }
void NcclNear::barrier() { rank_->barrier(); }
void NcclNear::all_to_all(ConstFloats whole, Floats parts, Cuts cuts) {
  rank_->all_to_all(whole, parts, cuts);
}
Traffic NcclNear::traffic() const { return rank_->traffic(); }

}  // namespace thinwire
