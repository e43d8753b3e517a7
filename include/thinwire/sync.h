// How a step's updates reach the other sites; the optimizer does not know by which of two forms.
//
//   AllReduceSync  mean of dense updates over all sites, in this step (the baseline); the first
//                  exchange throws Error where sites run different configurations
//
//   DelayedSync    posts the round of this step and collects the one `delay` steps back (0: this)
// Training thread only; the links must outlive the sync.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/exchange.h"
#include "thinwire/heard.h"

namespace thinwire {

class Sync {
 public:
  virtual ~Sync() = default;

  // Is this step's round, or the next one, over already? Then this site is behind; it listens and
  // says nothing.
  virtual bool missed(const Step&) const { return false; }
  virtual void open(Dialect dialect) = 0;  // once, by the trainer, before the first exchange
  virtual int site() const = 0;
  virtual int sites() const = 0;
  virtual int delay() const = 0;
  virtual bool reduces() const = 0;  // dense sums, or updates gathered as they are
  // `state_hash`: of the replicated state that `mine` was made from; compared between sites.
  // phase > 0 is exchanged without delay.
  virtual Heard exchange(const Step& step, int phase, std::uint64_t state_hash, Update mine) = 0;
  // Phase 0 of a missed step: as exchange, with nothing said.
  virtual Heard listen(const Step& step, std::uint64_t state_hash);
  // A step that does not speak: no round; what is due is heard. Called once.
  virtual Heard keep_silent(const Step&) { return {}; }
  // Phase 0 of a step that was done up to here before the program was started again.
  virtual Heard hear(const Step& step) = 0;
  // The run goes on at the start of `step`. `said`: the steps whose results are still to be heard,
  // oldest first, which are said again; the last may be this one.
  virtual void resume(const Step& step, std::vector<InFlight> said) = 0;
  virtual std::vector<InFlight> in_flight() const { return {}; }
  // Words beside the updates, in a phase of their own of the last round that was opened, without
  // delay: those of all sites that were in time, ascending. A sync without frames has none.
  virtual std::vector<SiteFrame> tell(const Step&, int /*phase*/, Bytes /*mine*/) { return {}; }
  virtual Traffic traffic() const = 0;
  // Sites whose frame could not be used, with the reason, since the last call.
  virtual std::vector<std::string> take_complaints() = 0;
};

class AllReduceSync final : public Sync {
 public:
  explicit AllReduceSync(Collective& far) : far_(far) {}
  void open(Dialect dialect) override;
  int site() const override { return far_.rank(); }
  int sites() const override { return far_.size(); }
  int delay() const override { return 0; }
  bool reduces() const override { return true; }
  Heard exchange(const Step& step, int phase, std::uint64_t state_hash, Update mine) override;
  Heard hear(const Step&) override { return {}; }  // a mean that was not heard is taken again
  void resume(const Step&, std::vector<InFlight>) override {}
  Traffic traffic() const override { return far_.traffic(); }
  std::vector<std::string> take_complaints() override;

 private:
  void agree();
  void complain_of(const std::vector<int>& sites);

  Collective& far_;
  Dialect dialect_;
  bool agreed_ = false;
  std::vector<std::string> complaints_;
};

class DelayedSync final : public Sync {
 public:
  struct Options {
    int delay = 0;  // 0 .. 8
    std::uint32_t epoch = 1;
  };
  DelayedSync(Exchange& far, Options options);  // throws UsageError for a delay out of range
  void open(Dialect dialect) override;
  bool missed(const Step& step) const override { return far_.missed(round_of(step, 0)); }
  int site() const override { return far_.site(); }
  int sites() const override { return far_.sites(); }
  int delay() const override { return options_.delay; }
  bool reduces() const override { return false; }
  Heard exchange(const Step& step, int phase, std::uint64_t state_hash, Update mine) override;
  Heard listen(const Step& step, std::uint64_t state_hash) override;
  Heard keep_silent(const Step& step) override;
  Heard hear(const Step& step) override;
  void resume(const Step& step, std::vector<InFlight> said) override;
  std::vector<InFlight> in_flight() const override;
  std::vector<SiteFrame> tell(const Step& step, int phase, Bytes mine) override;
  Traffic traffic() const override;
  std::vector<std::string> take_complaints() override;

 private:
  Round round_of(const Step& step, int phase) const;
  Heard collect(const Round& round, InFlight& said);  // `said` is as it was if that throws
  void post(const Round& round, std::uint64_t state_hash, ByteView payload);
  Bytes coded(const Update& update) const;
  void complain(const Round& round, int site, const std::string& why);

  Exchange& far_;
  Options options_;
  Dialect dialect_;
  // Oldest first, at most `delay` + 1 steps; missed and silent ones are empty.
  std::deque<InFlight> in_flight_;
  std::vector<std::string> complaints_;
  std::uint64_t refused_ = 0;
};

}  // namespace thinwire
