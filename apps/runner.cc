#include "apps/runner.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "apps/near_nccl.h"
#include "apps/rank_result.h"
#include "thinwire/error.h"
#include "thinwire/log.h"
#include "thinwire/sync.h"
#include "thinwire/trainer.h"
#include "transports/loopback.h"

namespace thinwire::app {
namespace {

// Held-out windows are evaluated in groups of this many, whatever the number of ranks, so that the
// loss has the same bits for any.
constexpr std::size_t kGroup = 8;

// A thread that fails wakes the others, so a long wait is a slow or stopped machine, which must
// change no result.
constexpr std::chrono::hours kPatience{24};

constexpr std::size_t kRollBacksMax = 16;

constexpr std::uint64_t kNever = ~std::uint64_t{0};

const std::string kNothing = "nothing was written";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Run {
 public:
  Run(const Job& job, GuardOptions guard)
      : job_(job),
        guard_(std::move(guard)),
        options_(job.options),
        sites_(job.link == nullptr && job.process == nullptr ? options_.sites : 1),
        world_({.sites = sites_,
                .ranks = job.process == nullptr ? options_.ranks : 1,
                .deadline = kPatience}),
        end_(job.until > 0 ? std::min(job.until, options_.steps) : options_.steps),
        traits_(traits_of(job.method, job.catalog)),
        stop_ahead_(traits_.delay + 1),
        groups_((options_.eval_windows + kGroup - 1) / kGroup),
        ranks_(static_cast<std::size_t>(sites_) * options_.ranks) {
    for (std::uint64_t step = 0; step < end_; step += options_.eval_every) {
      eval_steps_.push_back(step);
    }
    eval_steps_.push_back(end_);
    losses_.assign(eval_steps_.size(), std::vector<double>(groups_));
    for (RankResult& rank : ranks_) rank.bytes_up.assign(eval_steps_.size(), -1.0);
    if (job_.nccl != nullptr && job_.process == nullptr) {
      nccl_ = std::make_unique<NcclThreads>(*job_.nccl, options_.device, sites_, options_.ranks);
    }
  }

  RunResult go() {
    forget_peak_memory();
    {
      std::vector<std::jthread> threads;
      for (int site = 0; site < sites_; ++site) {
        for (int rank = 0; rank < options_.ranks && !failed(); ++rank) {
          if (is_here(rank)) start(threads, site, rank);
        }
      }
    }
    if (failure_) end_in_failure();
    if (job_.process != nullptr) hear_other_ranks();
    if (ranks_[0].steps < end_) {
      throw Interrupted("stopped; " + (job_.saving ? job_.saving->finish() : kNothing));
    }
    RunResult result = this->result();
    if (job_.saving) result.unsaved = save_the_last();
    return result;
  }

 private:
  // Of the run's sites, the number of the one that is played here as `site`.
  int number_of(int site) const {
    if (job_.process != nullptr) return job_.process->site();
    return job_.link == nullptr ? site : job_.link->site();
  }

  // Is that rank played by this process?
  bool is_here(int rank) const { return job_.process == nullptr || job_.process->rank() == rank; }

  Collective& near(int site, int rank) {
    if (job_.process != nullptr) return job_.process->near();
    return nccl_ ? nccl_->near(site, rank) : world_.near(site, rank);
  }

  // Of the ranks on this machine.
  std::size_t number_here(int site, int rank) const {
    if (job_.process != nullptr) return static_cast<std::size_t>(job_.process->local_rank());
    return static_cast<std::size_t>(site * options_.ranks + rank);
  }

  std::size_t part_of(int site, int rank) const {
    return static_cast<std::size_t>(number_of(site) * options_.ranks + rank);
  }

  RankResult& at(int site, int rank) { return ranks_[site * options_.ranks + rank]; }

  // A site that lost its hubs, or was stopped while it waited, has saved the step that it was in.
  [[noreturn]] void end_in_failure() {
    // A rank of another process that is gone writes nothing more.
    if (!job_.saving || (job_.process != nullptr && !saved_in_step_)) {
      std::rethrow_exception(failure_);
    }
    const std::string unsaved = save_the_last();
    if (job_.stop && saved_in_step_) {
      throw Interrupted("stopped; " + (unsaved.empty() ? job_.saving->finish() : unsaved));
    }
    std::rethrow_exception(failure_);
  }

  // Why not, or nothing.
  std::string save_the_last() {
    try {
      log_info(job_.saving->finish());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  void start(std::vector<std::jthread>& threads, int site, int rank) {
    try {
      threads.emplace_back([this, site, rank] { play(site, rank); });
    } catch (const std::system_error& error) {
      fail(std::make_exception_ptr(Error("cannot start " + std::to_string(ranks_.size()) +
                                         " threads: " + error.what() +
                                         "; take fewer sites or ranks")));
    }
  }

  void play(int site, int rank) {
    try {
      train(site, rank);
    } catch (const std::bad_alloc&) {
      fail(std::make_exception_ptr(
          Error("not enough memory; take a smaller model, fewer sites or a smaller batch")));
    } catch (...) {
      fail(std::current_exception());
    }
  }

  // The first failure is what went wrong; the others only notice that somebody is gone.
  void fail(std::exception_ptr failure) {
    std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::move(failure);
    if (job_.saving && !saved_in_step_) job_.saving->give_up();
    world_.fail("another rank failed");
    if (nccl_) nccl_->fail("another rank failed");
  }

  bool failed() {
    std::lock_guard lock(failure_mutex_);
    return failure_ != nullptr;
  }

  std::unique_ptr<Sync> make_sync(const Traits& traits, int site, int rank) {
    if (job_.process != nullptr) rank = 0;  // of those in this process
    if (traits.meeting == Meeting::reduce) {
      if (job_.process != nullptr) return std::make_unique<AllReduceSync>(job_.process->far());
      return std::make_unique<AllReduceSync>(
          job_.link == nullptr ? world_.far_collective(site, rank) : job_.link->collective(rank));
    }
    if (job_.process != nullptr && job_.process->exchange() != nullptr) {
      return std::make_unique<DelayedSync>(*job_.process->exchange(),
                                           DelayedSync::Options{.delay = traits.delay});
    }
    return std::make_unique<DelayedSync>(
        job_.link == nullptr ? world_.far(site, rank) : job_.link->exchange(rank),
        DelayedSync::Options{.delay = traits.delay});
  }

  std::unique_ptr<SpanSink> trace_of(int site, int rank) const {
    if (job_.trace == nullptr) return nullptr;
    return job_.trace->rank(number_of(site), rank,
                            job_.method.label + " seed " + std::to_string(job_.seed));
  }

  void train(int site, int rank) {
    if (nccl_) nccl_->connect(site, rank, world_.near(site, rank));
    Settings settings(job_.method.name, job_.method.settings);
    const auto optimizer = job_.catalog.make(job_.method.name, settings);
    const auto sync = make_sync(optimizer->traits(), site, rank);
    GptOptions where = options_.model;
    where.device = options_.device.of(number_here(site, rank));
    Gpt model(where, job_.text,
              {.seed = job_.seed,
               .global_batch = static_cast<std::size_t>(options_.batch),
               .part = part_of(site, rank),
               .parts = static_cast<std::size_t>(options_.sites) * options_.ranks,
               .held_out_windows = static_cast<std::size_t>(options_.eval_windows),
               .micro_batches = static_cast<std::size_t>(options_.inside.accumulate)});
    const auto spans = trace_of(site, rank);
    TrainerOptions trainer_options{.schedule = options_.schedule,
                                   .sites = options_.sites,
                                   .seed = job_.seed,
                                   .chunking = options_.chunking,
                                   .settings = describe(job_.method),
                                   .states = job_.link ? &job_.link->states(rank) : nullptr,
                                   .site = options_.inside,
                                   .guard = guard_};
    trainer_options.device = where.device;
    trainer_options.site.spans = spans.get();
    trainer_options.schedule.peak = job_.method.lr;
    if (job_.saving && job_.saving->from()) {
      trainer_options.start = [&](Shard& shard) {
        return job_.saving->load(site, shard, *optimizer);
      };
    }
    Trainer trainer(model, near(site, rank), *optimizer, *sync, trainer_options);
    RankResult& mine = at(site, rank);
    mine.parameters = trainer.layout().trainable_size();
    mine.steps = trainer.steps_done();
    std::uint64_t saved = mine.steps;  // on the disk already

    for (;;) {
      const std::uint64_t step = trainer.steps_done();
      const auto due = std::ranges::find(eval_steps_, step);
      if (due != eval_steps_.end()) {
        const auto evaluation = static_cast<std::size_t>(due - eval_steps_.begin());
        evaluate(model, trainer, site, rank, evaluation);
        mine.bytes_up[evaluation] = static_cast<double>(sync->traffic().bytes_sent);
      }
      const bool leaving = step >= end_ || should_stop(step, *optimizer);
      if (job_.saving && step > saved && (leaving || job_.saving->due(step))) {
        job_.saving->save({site, rank}, trainer);
        saved = step;
      }
      if (leaving) break;
      const Clock::time_point begin = Clock::now();
      if (job_.link) model.set_part(part_of(site, rank));
      const StepReport report = step_of(trainer, {site, rank});
      mine.train_s += seconds_since(begin);
      mine.compute_s += report.compute_s;
      mine.times.add(report.times);
      if (mine.steps_here == 0) mine.first_loss = report.loss;
      ++mine.steps_here;
      mine.steps = report.index + 1;
      if (site == 0 && rank == 0 && job_.progress) job_.progress(report.index + 1, report.loss);
    }
    mine.traffic = sync->traffic();
    mine.skipped = trainer.skipped();
    mine.hash = trainer.state_hash();
  }

  // Who waits in vain saves the step as it is: said, but not heard.
  StepReport step_of(Trainer& trainer, Seat seat) {
    try {
      return trainer.step();
    } catch (const HubLost&) {
      save_in_step(trainer, seat);
      throw;
    } catch (const Interrupted&) {
      save_in_step(trainer, seat);
      throw;
    }
  }

  // Others may have missed the end of the last rounds that this site heard.
  void save_in_step(Trainer& trainer, Seat seat) {
    if (!job_.saving) return;
    const std::uint64_t round = trainer.rounds_done();
    const std::uint64_t from = round - std::min<std::uint64_t>(round, 2 * stop_ahead_);
    std::optional<Bytes> rounds;
    if (job_.link) rounds = job_.link->save_rounds(seat.rank, from);
    if (job_.process) rounds = job_.process->save_rounds(from);
    if (!rounds) return;
    job_.saving->save(seat, trainer, std::move(*rounds));
    saved_in_step_ = true;
  }

  // Nobody is more than the method's delay beyond a step in which somebody has yet to speak: the
  // first who sees the stop names a step that no one has passed, and all leave there.
  bool should_stop(std::uint64_t step, const Optimizer& optimizer) {
    if (job_.process != nullptr) return job_.process->any(job_.stop);
    if (job_.stop.load(std::memory_order_relaxed)) {
      std::uint64_t expected = kNever;
      Step next;
      next.sites = options_.sites;
      for (next.index = step; next.index < end_ && !optimizer.speaks(next);) ++next.index;
      stop_at_.compare_exchange_strong(expected, next.index + stop_ahead_);
    }
    return step >= stop_at_.load();
  }

  // Groups of windows are dealt to all ranks. Ranks of a site take leases together, so one that has
  // no group left in the last round repeats another.
  void evaluate(Gpt& model, Trainer& trainer, int site, int rank, std::size_t evaluation) {
    const std::size_t ranks = ranks_.size();
    const std::size_t rounds = (groups_ + ranks - 1) / ranks;
    for (std::size_t round = 0; round < rounds; ++round) {
      const std::size_t group = round * ranks + site * options_.ranks + rank;
      const std::size_t first = std::min(group, groups_ - 1) * kGroup;
      const std::size_t count = std::min(kGroup, options_.eval_windows - first);
      const double loss = model.held_out_loss(trainer.units(), first, count);
      if (group < groups_) losses_[evaluation][group] = loss * static_cast<double>(count);
    }
  }

  // What the ranks of other processes found out, as if they had been threads of this one.
  void hear_other_ranks() {
    if (!job_.process->all_equal(at(0, job_.process->rank()).hash)) {
      throw Error(job_.method.label + ": replicas ended with different bits; this is a defect");
    }
    const auto all = job_.process->share(to_numbers(ranks_[job_.process->rank()], losses_));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::vector<std::vector<double>> losses = losses_;
      from_numbers(all[rank], ranks_[rank], losses);
      for (std::size_t i = 0; i < losses.size(); ++i) {
        for (std::size_t group = rank; group < groups_; group += all.size()) {
          losses_[i][group] = losses[i][group];
        }
      }
    }
  }

  RunResult result() {
    RunResult result = sum_up(ranks_, sites_, options_, job_.method.label);
    for (std::size_t i = 0; i < eval_steps_.size(); ++i) {
      if (ranks_[0].bytes_up[i] < 0.0) continue;
      Evaluation evaluation;
      evaluation.step = eval_steps_[i];
      for (double sum : losses_[i]) evaluation.loss += sum / options_.eval_windows;
      for (const RankResult& rank : ranks_) evaluation.bytes_up += rank.bytes_up[i] / sites_;
      result.curve.push_back(evaluation);
    }
    result.traits = traits_;
    result.first_loss = ranks_[0].first_loss;
    return result;
  }

  const Job& job_;
  const GuardOptions guard_;
  const RunOptions& options_;
  int sites_;  // played in this process
  LoopbackWorld world_;
  std::unique_ptr<NcclThreads> nccl_;
  std::uint64_t end_;  // steps
  Traits traits_;
  std::uint64_t stop_ahead_;  // steps
  std::size_t groups_;
  std::vector<RankResult> ranks_;
  std::vector<std::uint64_t> eval_steps_;
  std::vector<std::vector<double>> losses_;  // by evaluation and group; each cell has one writer
  std::atomic<std::uint64_t> stop_at_{kNever};
  std::mutex failure_mutex_;
  std::atomic<bool> saved_in_step_{false};
  std::exception_ptr failure_;  // guarded by failure_mutex_ while threads run
};

}  // namespace

Traits traits_of(const MethodSpec& method, const OptimizerCatalog& catalog) {
  Settings settings(method.name, method.settings);
  return catalog.make(method.name, settings)->traits();
}

// A step that went wrong is left out when the run comes to it again.
RunResult run(const Job& job) {
  GuardOptions guard = job.options.guard;
  for (;;) {
    try {
      return Run(job, guard).go();
    } catch (const Spike& spike) {
      if (guard.policy != GuardPolicy::roll_back || guard.skip.size() == kRollBacksMax) throw;
      guard.skip.push_back(spike.step);
      log_warn(std::string(spike.what()) + "; the run goes back to step " +
               std::to_string(job.saving->roll_back()) + " and leaves that step out");
    }
  }
}

}  // namespace thinwire::app
