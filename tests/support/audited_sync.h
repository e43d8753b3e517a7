// A sync that tells what was said, heard and taken back, so that a run can be audited.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/codec/codec.h"
#include "thinwire/hash.h"
#include "thinwire/sync.h"

namespace thinwire::test {

// Updates by their hashes. Called from the training thread.
class Witness {
 public:
  virtual ~Witness() = default;
  virtual void said(std::uint64_t round, std::uint64_t update) = 0;  // before anybody can hear it
  virtual void heard(std::uint64_t round, const std::map<int, std::uint64_t>& updates) = 0;
  virtual void unheard(std::uint64_t round) = 0;  // what was said there is owed again
  // The state of the others was taken over before that step; what was in flight is forgotten.
  virtual void resumed(std::uint64_t) {}
};

class AuditedSync final : public Sync {
 public:
  AuditedSync(std::unique_ptr<Sync> sync, Witness& witness)
      : sync_(std::move(sync)), witness_(witness) {}
  bool missed(const Step& step) const override { return sync_->missed(step); }
  void open(Dialect dialect) override {
    shape_ = {dialect.floats, dialect.tile_coefficients};
    sync_->open(std::move(dialect));
  }
  int site() const override { return sync_->site(); }
  std::vector<SiteFrame> tell(const Step& step, int phase, Bytes mine) override {
    return sync_->tell(step, phase, std::move(mine));
  }
  int sites() const override { return sync_->sites(); }
  int delay() const override { return sync_->delay(); }
  bool reduces() const override { return sync_->reduces(); }
  Heard exchange(const Step& step, int phase, std::uint64_t state, Update mine) override {
    if (!reduces() && !mine.empty()) witness_.said(step.index, hash_of(mine));
    return note(step, sync_->exchange(step, phase, state, std::move(mine)));
  }
  Heard listen(const Step& step, std::uint64_t state) override {
    return note(step, sync_->listen(step, state));
  }
  Heard keep_silent(const Step& step) override { return note(step, sync_->keep_silent(step)); }
  Heard hear(const Step& step) override { return note(step, sync_->hear(step)); }
  void resume(const Step& step, std::vector<InFlight> said) override {
    witness_.resumed(step.index);
    sync_->resume(step, std::move(said));
  }
  std::vector<InFlight> in_flight() const override { return sync_->in_flight(); }
  Traffic traffic() const override { return sync_->traffic(); }
  std::vector<std::string> take_complaints() override { return sync_->take_complaints(); }

 private:
  std::uint64_t hash_of(const Update& update) const { return hash64(encode(update, shape_)); }
  Heard note(const Step& step, Heard heard) {
    if (reduces() || step.index < static_cast<std::uint64_t>(delay())) return heard;
    std::map<int, std::uint64_t> updates;
    for (const Contribution& one : heard.contributions) updates[one.site] = hash_of(one.update);
    witness_.heard(step.index - delay(), updates);
    for (const Unheard& one : heard.unheard) witness_.unheard(one.said.index);
    return heard;
  }

  std::unique_ptr<Sync> sync_;
  Witness& witness_;
  ::thinwire::Shape shape_;
};

}  // namespace thinwire::test
