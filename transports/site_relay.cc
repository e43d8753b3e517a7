#include "transports/site_relay.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/error.h"
#include "thinwire/state_link.h"

namespace thinwire {
namespace {

enum class Kind : std::uint32_t { value, error, usage, interrupted, outdated, hub_lost };

// What rank 0 says first: how it went, and how many bytes follow.
struct Verdict {
  Kind kind = Kind::value;
  std::uint32_t unused = 0;
  std::uint64_t size = 0;
};

Kind kind_of(const Error& error) {
  if (dynamic_cast<const Outdated*>(&error) != nullptr) return Kind::outdated;
  if (dynamic_cast<const HubLost*>(&error) != nullptr) return Kind::hub_lost;
  if (dynamic_cast<const Interrupted*>(&error) != nullptr) return Kind::interrupted;
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return Kind::usage;
  return Kind::error;
}

[[noreturn]] void rethrow(Kind kind, const std::string& text) {
  if (kind == Kind::outdated) throw Outdated(text);
  if (kind == Kind::hub_lost) throw HubLost(text);
  if (kind == Kind::interrupted) throw Interrupted(text);
  if (kind == Kind::usage) throw UsageError(text);
  throw Error(text);
}

Bytes bytes_of(const std::string& text) {
  const ByteView view = std::as_bytes(std::span<const char>(text));
  return Bytes(view.begin(), view.end());
}

// Bytes travel as floats that nobody computes with.
std::size_t floats_for(std::size_t bytes) { return (bytes + sizeof(float) - 1) / sizeof(float); }

void put(Bytes& to, std::uint64_t value) {
  to.resize(to.size() + sizeof value);
  std::memcpy(to.data() + to.size() - sizeof value, &value, sizeof value);
}

std::uint64_t take(ByteView& from) {
  std::uint64_t value = 0;
  if (from.size() < sizeof value) throw Error("rank 0 of the site sends a result cut short");
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return value;
}

void put(Bytes& to, const RoundResult& result) {
  put(to, result.frames.size());
  for (const SiteFrame& frame : result.frames) {
    put(to, static_cast<std::uint64_t>(frame.site));
    put(to, frame.bytes.size());
    to.insert(to.end(), frame.bytes.begin(), frame.bytes.end());
  }
  put(to, result.absent.size());
  for (const int site : result.absent) put(to, static_cast<std::uint64_t>(site));
}

RoundResult take_result(ByteView& from) {
  RoundResult result;
  for (std::uint64_t frames = take(from); frames > 0; --frames) {
    const int site = static_cast<int>(take(from));
    const std::uint64_t size = take(from);
    if (size > from.size()) throw Error("rank 0 of the site sends a frame cut short");
    result.frames.push_back({site, Bytes(from.begin(), from.begin() + static_cast<long>(size))});
    from = from.subspan(size);
  }
  for (std::uint64_t absent = take(from); absent > 0; --absent) {
    result.absent.push_back(static_cast<int>(take(from)));
  }
  return result;
}

}  // namespace

class SiteRelay::Body final : public Exchange {
 public:
  Body(Collective& ranks, ZmqLink* link) : ranks_(ranks), link_(link), averages_(*this) {
    Bytes places = from_first([&] {
      if (link_->states(0).enters_late()) {
        throw Error(
            "a site of several processes cannot enter a run under way; start it with the run, or "
            "give its ranks as threads of one process (--ranks)");
      }
      Bytes said;
      put(said, static_cast<std::uint64_t>(link_->site()));
      put(said, static_cast<std::uint64_t>(link_->sites()));
      return said;
    });
    ByteView view = places;
    site_ = static_cast<int>(take(view));
    sites_ = static_cast<int>(take(view));
  }

  int site() const override { return site_; }
  int sites() const override { return sites_; }
  Collective& collective() { return averages_; }
  Traffic traffic() const override { return traffic_; }

  void post(const Round& round, Bytes frame) override {
    traffic_.bytes_sent += frame.size();
    std::vector<Bytes> frames = to_first(frame);
    for (int rank = 0; rank < static_cast<int>(frames.size()); ++rank) {
      keep([&] { link_->exchange(rank).post(round, std::move(frames[rank])); });
    }
  }

  // The link may have failed: what it holds is still there.
  Bytes save_rounds(std::uint64_t from) const {
    failure_ = nullptr;
    const Bytes all = from_first([&] {
      Bytes said;
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        const Bytes rounds = link_->save_rounds(rank, from);
        put(said, rounds.size());
        said.insert(said.end(), rounds.begin(), rounds.end());
      }
      return said;
    });
    ByteView view = all;
    for (int rank = 0; rank < ranks_.rank(); ++rank) {
      const std::uint64_t size = take(view);
      view = view.subspan(std::min<std::size_t>(size, view.size()));
    }
    const std::uint64_t size = std::min<std::uint64_t>(take(view), view.size());
    return Bytes(view.begin(), view.begin() + static_cast<std::ptrdiff_t>(size));
  }

  RoundResult collect(const Round& round) override {
    const Bytes all = from_first([&] {
      Bytes said;
      for (int rank = 0; rank < ranks_.size(); ++rank)
        put(said, link_->exchange(rank).collect(round));
      return said;
    });
    ByteView view = all;
    for (int rank = 0; rank < ranks_.rank(); ++rank) take_result(view);
    RoundResult result = take_result(view);
    for (const SiteFrame& frame : result.frames) {
      if (frame.site != site_) traffic_.bytes_received += frame.bytes.size();
    }
    return result;
  }

  bool missed(const Round& round) const override {
    const Bytes said = from_first([&] {
      bool all = true;
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        all = all && link_->exchange(rank).missed(round);
      }
      return Bytes(1, std::byte{all});
    });
    return said.at(0) != std::byte{0};
  }

  // The link gives a mean when those of all ranks are there: they are asked for side by side.
  void average(Floats whole) {
    const ByteView own = std::as_bytes(whole);
    std::vector<Bytes> parts = to_first(own);
    const Bytes all = from_first([&] {
      average_all(parts);
      Bytes said;
      for (const Bytes& part : parts) {
        put(said, part.size());
        said.insert(said.end(), part.begin(), part.end());
      }
      return said;
    });
    ByteView view = all;
    for (int rank = 0; rank < ranks_.rank(); ++rank) {
      const std::uint64_t size = take(view);
      view = view.subspan(std::min<std::size_t>(size, view.size()));
    }
    if (take(view) != own.size() || view.size() < own.size()) {
      throw Error("rank 0 of the site sends a mean of another size");
    }
    if (!own.empty()) std::memcpy(whole.data(), view.data(), own.size());
    traffic_.bytes_sent += own.size();
    traffic_.bytes_received += own.size();
  }

 private:
  class Averages final : public Collective {
   public:
    explicit Averages(Body& body) : body_(body) {}
    int rank() const override { return body_.site(); }
    int size() const override { return body_.sites(); }
    bool agreed() const override { return true; }  // in the hello of rank 0
    void all_reduce_mean(Floats whole) override { body_.average(whole); }
    void reduce_scatter_mean(ConstFloats, Floats, Cuts) override { refuse("reduce_scatter_mean"); }
    void all_gather(ConstFloats, Floats, Cuts) override { refuse("all_gather"); }
    void broadcast(Floats, int) override { refuse("broadcast"); }
    void barrier() override { refuse("barrier"); }
    Traffic traffic() const override { return body_.traffic(); }

   private:
    [[noreturn]] static void refuse(const std::string& operation) {
      throw Error("the far link knows all_reduce_mean alone, not " + operation);
    }
    Body& body_;
  };

  // Nobody begins before all are there: without one of them the others would wait for ever.
  void average_all(std::vector<Bytes>& parts) {
    enum Gate { shut, open, off };
    std::atomic<int> gate{shut};
    std::vector<std::exception_ptr> failures(parts.size());
    const auto turn = [&](int way) {
      gate = way;
      gate.notify_all();
    };
    {
      std::vector<std::jthread> threads;
      threads.reserve(parts.size());
      try {
        for (std::size_t rank = 0; rank < parts.size(); ++rank) {
          threads.emplace_back([&, rank] {
            gate.wait(shut);
            if (gate != open) return;
            try {
              average(static_cast<int>(rank), parts[rank]);
            } catch (...) {
              failures[rank] = std::current_exception();
            }
          });
        }
      } catch (const std::system_error& error) {
        turn(off);
        throw Error("rank 0 of the site cannot start a thread for each rank: " +
                    std::string(error.what()) + "; raise the limit of processes (ulimit -u)");
      }
      turn(open);
    }
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  void average(int rank, Bytes& part) {
    std::vector<float> values(part.size() / sizeof(float));
    if (!part.empty()) std::memcpy(values.data(), part.data(), part.size());
    link_->collective(rank).all_reduce_mean(values);
    if (!part.empty()) std::memcpy(part.data(), values.data(), part.size());
  }

  // What rank 0 does for all, on all. An error that was kept comes first.
  template <class Work>
  Bytes from_first(Work work) const {
    Bytes said;
    Verdict verdict;
    if (link_ != nullptr) {
      keep([&] { said = work(); });
      if (failure_) {
        verdict.kind = failed_as_;
        said = bytes_of(failed_with_);
      }
      verdict.size = said.size();
    }
    float words[sizeof(Verdict) / sizeof(float)];
    std::memcpy(words, &verdict, sizeof verdict);
    ranks_.broadcast(words, 0);
    std::memcpy(&verdict, words, sizeof verdict);
    std::vector<float> floats(floats_for(verdict.size));
    if (link_ != nullptr && !said.empty()) std::memcpy(floats.data(), said.data(), said.size());
    if (!floats.empty()) ranks_.broadcast(floats, 0);
    said.resize(verdict.size);
    if (link_ == nullptr && !said.empty()) std::memcpy(said.data(), floats.data(), said.size());
    if (verdict.kind == Kind::value) return said;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    rethrow(verdict.kind, {reinterpret_cast<const char*>(said.data()), said.size()});
  }

  // Everyone's bytes, at rank 0; nothing on the others.
  std::vector<Bytes> to_first(ByteView mine) {
    const auto ranks = static_cast<std::size_t>(ranks_.size());
    std::vector<std::uint64_t> sizes(ranks);
    sizes[ranks_.rank()] = mine.size();
    std::vector<std::size_t> cuts(ranks + 1);
    constexpr std::size_t kEach = sizeof(std::uint64_t) / sizeof(float);
    for (std::size_t rank = 0; rank <= ranks; ++rank) cuts[rank] = rank * kEach;
    std::vector<float> words(ranks * kEach);
    std::memcpy(words.data(), sizes.data(), ranks * sizeof sizes[0]);
    ranks_.all_gather(Floats(words).subspan(cuts[ranks_.rank()], kEach), words, cuts);
    std::memcpy(sizes.data(), words.data(), ranks * sizeof sizes[0]);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      cuts[rank + 1] = cuts[rank] + floats_for(sizes[rank]);
    }
    std::vector<float> all(cuts.back());
    const Floats own = Floats(all).subspan(cuts[ranks_.rank()], floats_for(mine.size()));
    if (!mine.empty()) std::memcpy(own.data(), mine.data(), mine.size());
    ranks_.all_gather(own, all, cuts);
    std::vector<Bytes> each;
    for (std::size_t rank = 0; link_ != nullptr && rank < ranks; ++rank) {
      const std::byte* first = reinterpret_cast<const std::byte*>(all.data() + cuts[rank]);
      each.emplace_back(first, first + sizes[rank]);
    }
    return each;
  }

  // An error of rank 0 waits until it can be told to all.
  template <class Work>
  void keep(Work work) const {
    if (failure_) return;
    try {
      work();
    } catch (const Error& error) {
      failure_ = std::current_exception();
      failed_as_ = kind_of(error);
      failed_with_ = error.what();
    }
  }

  Collective& ranks_;
  ZmqLink* link_;
  Averages averages_;
  int site_ = 0;
  int sites_ = 1;
  Traffic traffic_;
  mutable std::exception_ptr failure_;
  mutable Kind failed_as_ = Kind::error;
  mutable std::string failed_with_;
};

SiteRelay::SiteRelay(Collective& ranks, ZmqLink* link)
    : body_(std::make_unique<Body>(ranks, link)) {}
SiteRelay::~SiteRelay() = default;
int SiteRelay::site() const { return body_->site(); }
int SiteRelay::sites() const { return body_->sites(); }
Exchange& SiteRelay::exchange() { return *body_; }
Bytes SiteRelay::save_rounds(std::uint64_t from) { return body_->save_rounds(from); }
Collective& SiteRelay::collective() { return body_->collective(); }

}  // namespace thinwire
