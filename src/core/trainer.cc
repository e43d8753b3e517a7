#include "thinwire/trainer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "src/codec/dense.h"
#include "src/core/repair.h"
#include "src/core/site_math.h"
#include "src/core/trainer_body.h"
#include "src/core/unit_check.h"
#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/kernels.h"
#include "thinwire/log.h"

namespace thinwire {
namespace {

// Raised whenever the meaning of what is exchanged changes.
constexpr std::string_view kProtocol = "thinwire/3";

double thread_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Squares and transforms of floats beyond it overflow: a gradient with such a norm is as useless as
// one that is not finite.
constexpr double kNormMax = 1e18;

constexpr double kTimeShare = 0.25;  // of the last step in the time of recent steps

}  // namespace

std::uint64_t Trainer::Body::agreement() const {
  std::uint64_t hash = hash64(kProtocol);
  hash = hash_fold(hash, dense_version());
  hash = hash_fold(hash, layout_.hash());
  hash = hash_fold(hash, hash64(optimizer_.name()));
  hash = hash_fold(hash, hash64(options_.settings));
  hash = hash_fold(hash, hash64(std::string_view(options_.site.agreement())));
  hash = hash_fold(hash, static_cast<std::uint64_t>(options_.sites));
  hash = hash_fold(hash, static_cast<std::uint64_t>(near_.size()));
  hash = hash_fold(hash, options_.seed);
  const Schedule& schedule = options_.schedule;
  hash = hash_fold(hash, static_cast<std::uint64_t>(schedule.shape));
  for (std::uint64_t length : {schedule.steps, schedule.warmup}) hash = hash_fold(hash, length);
  const std::array<float, 3> rates{schedule.peak, schedule.floor, schedule.decay};
  return hash_fold(hash, hash64(ConstFloats(rates)));
}

Dialect Trainer::Body::dialect() const {
  Dialect dialect;
  dialect.agreement = agreement();
  dialect.part = near_.rank();
  dialect.floats = shard_.params().size();
  dialect.form = traits_.form;
  for (const Tile& tile : shard_.tiles()) {
    dialect.tile_coefficients.push_back(static_cast<std::uint32_t>(tile.height * tile.width));
  }
  return dialect;
}

// A site that the run has left too far behind begins anew from the run's state.
StepReport Trainer::Body::step() {
  for (;;) {
    try {
      StepReport report = one_step();
      report.took_over = std::exchange(took_over_, false);
      return report;
    } catch (const Outdated&) {
      if (!options_.states) throw;
      take_over();
    }
  }
}

StepReport Trainer::Body::one_step() {
  offer_state();
  Step step;
  step.index = index_;
  step.round = round_;
  step.speaks = speaks(index_);
  step.lr = options_.schedule.at(index_);
  step.sites = options_.sites;
  StepReport report;
  report.index = index_;
  report.lr = step.lr;
  timeline_.begin_step(index_);
  compare_ranks();
  report.caught_up = missed(step) || spoken_;
  const double cpu = thread_cpu_s();
  Update said = compute(step, report);

  // Every phase is exchanged by every site, even with nothing to say: others count on hearing from
  // everyone.
  const int phases = step.speaks ? traits_.phases : 1;
  for (step.phase = 0; step.phase < phases; ++step.phase) {
    const Heard heard = exchange(step, std::move(said), report);
    said = timeline_.in(Phase::apply, [&] { return apply(step, heard, report); });
  }
  TW_CHECK(said.empty());  // nobody would hear what the last phase says
  report.compute_s = thread_cpu_s() - cpu;
  report.times = timeline_.end_step();
  if (traits_.wants_time && !report.caught_up) note_time(report.times);
  applying_ = spoken_ = false;
  round_ += step.speaks ? 1 : 0;
  ++index_;
  return report;
}

void Trainer::Body::compare_ranks() {
  const std::uint64_t every = options_.guard.compare_every;
  if (every == 0 || index_ % every != 0) return;
  if (const std::string why = differing_unit(units_, near_); !why.empty()) {
    throw Error("step " + std::to_string(index_) + ": " + why +
                "; its memory or network is damaged: go on from a checkpoint elsewhere");
  }
}

// The mean over the ranks, since a site speaks as one.
void Trainer::Body::note_time(const StepTimes& times) {
  const double mine = times.compute_s + times.extract_s + times.apply_s;
  std::array<float, 1> mean{static_cast<float>(mine)};
  if (near_.size() > 1) near_.all_reduce_mean(mean);
  compute_s_ = compute_s_ == 0.0 ? mean[0] : compute_s_ + kTimeShare * (mean[0] - compute_s_);
}

// One decision for all ranks of the site: a round counts as missed when every one knows it to be
// over.
bool Trainer::Body::missed(const Step& step) {
  if (traits_.meeting != Meeting::gather) return false;
  std::array<float, 1> share{sync_.missed(step) ? 1.0f : 0.0f};
  if (near_.size() > 1) timeline_.in(Phase::reduce, [&] { near_.all_reduce_mean(share); });
  return share[0] == 1.0f;
}

// What this site says in the step: nothing when it is behind, so that it catches up without
// computing gradients that nobody would hear.
Update Trainer::Body::compute(const Step& step, StepReport& report) {
  if (report.caught_up) {
    report.loss = std::numeric_limits<float>::quiet_NaN();
    report.gradient_norm = std::numeric_limits<double>::quiet_NaN();
    return {};
  }
  units_.begin_step();
  units_.take_from(
      timeline_.in(Phase::compute, [&] { return optimizer_.gradient_point(step, shard_); }));
  report.loss = timeline_.in(Phase::compute, [&] { return pass(step); });
  units_.end_step();
  units_.take_from(shard_.params());
  return extract(step, report);
}

// The mean loss over the step's micro-batches.
float Trainer::Body::pass(Step step) {
  float loss = 0.0f;
  step.micros = options_.site.accumulate;
  for (step.micro = 0; step.micro < step.micros; ++step.micro) {
    units_.begin_pass(step.micro);
    loss += model_.loss_and_grad(units_, step);
    units_.end_pass();
  }
  return loss / static_cast<float>(step.micros);
}

// The norm is equal on all ranks, and so is what follows from it.
void Trainer::Body::clip(double norm) {
  kernels::scale(shard_.grad(), static_cast<float>(options_.site.clip / norm));
}

// A gradient that is not finite on any rank is folded into no residual: the site says nothing.
Update Trainer::Body::extract(Step step, StepReport& report) {
  step.norm = timeline_.in(near_.size() > 1 ? Phase::reduce : Phase::extract,
                           [&] { return site_norm(shard_, shard_.grad(), near_); });
  report.gradient_norm = step.norm;
  const std::string why = objection(step, report.loss);
  report.skipped = !why.empty();
  if (!report.skipped) {
    return timeline_.in(Phase::extract, [&] {
      if (options_.site.clip > 0.0f && step.norm > options_.site.clip) {
        clip(step.norm);
        step.norm = options_.site.clip;
      }
      step.compute_s = compute_s_;
      Update said = optimizer_.extract(step, shard_);
      TW_CHECK(step.speaks || said.empty());
      return said;
    });
  }
  if (!(step.norm <= kNormMax)) report.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  ++skipped_;
  // A run that has diverged would say so in every step.
  if (near_.rank() == 0 && std::has_single_bit(skipped_)) {
    log_warn("step " + std::to_string(step.index) + ": " + why +
             "; this site's contribution is skipped, " + std::to_string(skipped_) + " so far");
  }
  return {};
}

// Why this site says nothing in the step, or nothing; the same on all ranks. Throws Spike where the
// guard is not to be content with that.
std::string Trainer::Body::objection(const Step& step, float loss) {
  const GuardOptions& guard = options_.guard;
  if (std::ranges::count(guard.skip, step.index) > 0) return "it is left out, as was asked";
  std::array<float, 1> mean{loss};
  if (guard.spike > 0.0f && near_.size() > 1) near_.all_reduce_mean(mean);
  std::string why;
  if (!(step.norm <= kNormMax)) {
    why = "the gradient is not finite or its norm above 1e18";
  } else if (guard_.is_spike(mean[0])) {
    why = "the loss " + std::to_string(mean[0]) + " is far above the usual";
  }
  if (why.empty() || guard.policy == GuardPolicy::skip) return why;
  throw Spike("step " + std::to_string(step.index) + ": " + why, step.index);
}

Heard Trainer::Body::exchange(const Step& step, Update mine, StepReport& report) {
  Heard heard;
  if (traits_.meeting == Meeting::nothing) {
    if (!mine.empty()) heard.contributions.push_back({0, std::move(mine)});
    return heard;
  }
  const double wall = wall_s();
  const std::uint64_t state = step.speaks ? shard_hash(shard_) : 0;
  heard = timeline_.in(Phase::exchange, [&] {
    if (step.phase == 0 && spoken_) return sync_.hear(step);
    if (!step.speaks) return sync_.keep_silent(step);
    if (step.phase == 0 && report.caught_up) return sync_.listen(step, state);
    return sync_.exchange(step, step.phase, state, std::move(mine));
  });
  applying_ = true;
  for (const std::string& complaint : sync_.take_complaints()) log_warn(complaint);
  if (step.phase == 0 && hears(step.index)) repair(step, heard);
  report.exchange_s += wall_s() - wall;
  return heard;
}

// One decision for all ranks of the site. What was said up to a repair was said before it, and says
// nothing of the replica after it.
void Trainer::Body::repair(const Step& step, const Heard& heard) {
  const std::uint64_t round = step.index - std::min<std::uint64_t>(heard.age, step.index);
  const bool news = heard.of_most >= 0 && !heard.diverged.empty() && round >= repaired_before_;
  std::array<float, 1> share{news ? 1.0f : 0.0f};
  if (near_.size() > 1) near_.all_reduce_mean(share);
  if (share[0] == 0.0f) return;
  repaired_before_ = step.index + 1;
  if (!sync_.reduces()) {
    repair_replica(step, sync_.site(), news ? heard : Heard{}, sync_, shard_);
    return;
  }
  // A mean carries no rows: such a site takes the whole state over, if there is a way.
  const bool mine = std::ranges::count(heard.diverged, sync_.site()) > 0;
  if (mine && options_.states) options_.states->give_up_replica("differs from most sites");
}

Update Trainer::Body::apply(Step step, const Heard& heard, StepReport& report) {
  for (const Unheard& unheard : heard.unheard) {
    optimizer_.take_back(unheard.said, shard_, unheard.update);
  }
  step.age = heard.age;
  if (step.phase == 0) {
    report.heard = static_cast<int>(heard.contributions.size());
    report.diverged = heard.diverged;
  }
  std::span<const Contribution> contributions = heard.contributions;
  step.norm = 0.0;
  if (traits_.meeting == Meeting::reduce && step.speaks) {
    // Collective, so every rank calls it: also one whose shard is empty and hears nothing.
    const ConstFloats mean = contributions.empty() ? ConstFloats(shard_.grad())
                                                   : ConstFloats(contributions[0].update.dense);
    const double norm = site_norm(shard_, mean, near_);
    if (!std::isfinite(norm)) contributions = {};
    if (!contributions.empty()) step.norm = norm;
  }
  return optimizer_.apply(step, shard_, contributions);
}

Trainer::Trainer(Model& model, Collective& near, Optimizer& optimizer, Sync& sync,
                 TrainerOptions options)
    : body_(std::make_unique<Body>(model, near, optimizer, sync, std::move(options))) {}
Trainer::~Trainer() = default;

StepReport Trainer::step() { return body_->step(); }
std::uint64_t Trainer::steps_done() const { return body_->index_; }
std::uint64_t Trainer::rounds_done() const { return body_->round_; }
std::optional<Progress> Trainer::progress() const {
  if (body_->applying_) return std::nullopt;
  return Progress{body_->index_, body_->repaired_before_, body_->sync_.in_flight(),
                  body_->guard_.usual()};
}
ConstFloats Trainer::frozen(int unit) const { return body_->units_.frozen(unit); }
const Shard& Trainer::shard() const { return body_->shard_; }
Shard& Trainer::shard() { return body_->shard_; }
const Layout& Trainer::layout() const { return body_->layout_; }
Units& Trainer::units() { return body_->units_; }
std::uint64_t Trainer::state_hash() { return site_hash(body_->shard_, body_->near_); }
std::uint64_t Trainer::agreement() const { return body_->agreement(); }
std::uint64_t Trainer::skipped() const { return body_->skipped_; }

}  // namespace thinwire
