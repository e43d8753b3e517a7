// Sites x ranks as threads over loopback, training one model per rank, for tests of methods.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/threads.h"
#include "tests/support/toy_model.h"
#include "thinwire/sync.h"
#include "thinwire/trainer.h"
#include "transports/loopback.h"

namespace thinwire::test {

struct SiteRunOptions {
  LoopbackOptions world = {};
  std::uint64_t steps = 20;
  Schedule schedule = {.shape = ScheduleShape::constant, .peak = 0.02f};
  Chunking chunking = Chunking::padded;
  SiteOptions inside = {};  // a site
  GuardOptions guard = {};
  std::function<std::unique_ptr<Optimizer>()> optimizer;
  std::function<std::unique_ptr<Model>(int site, int rank)> model = [](int site, int) {
    return std::make_unique<ToyModel>(ToyOptions{.site = site});
  };
  // Where a rank's model works; none: on the host.
  std::function<Device(int site, int rank)> device = {};
  // Called by every rank before each step.
  std::function<void(Trainer&, LoopbackWorld&, int site, int rank)> before_step = {};
  std::function<void(Trainer&, int site, int rank)> at_end = {};
  // Another near link for a rank, around the one given; none: that one.
  std::function<std::unique_ptr<Collective>(Collective&, int rank)> near = {};
  // Where a rank goes on from; none: it begins.
  std::function<Progress(Shard&, Optimizer&, int site)> start = {};
};

struct RankOutcome {
  std::uint64_t hash = 0;
  std::vector<StepReport> reports;
  Traffic traffic;
  std::uint64_t skipped = 0;
};

inline std::unique_ptr<Sync> sync_for(const Traits& traits, LoopbackWorld& world, int site,
                                      int rank) {
  if (traits.meeting == Meeting::reduce) {
    return std::make_unique<AllReduceSync>(world.far_collective(site, rank));
  }
  return std::make_unique<DelayedSync>(world.far(site, rank),
                                       DelayedSync::Options{.delay = traits.delay});
}

// All parameters of a site, parameter after parameter. Collective over its ranks.
inline std::vector<float> gathered_parameters(Trainer& trainer) {
  std::vector<float> all;
  for (std::size_t p = 0; p < trainer.layout().parameters().size(); ++p) {
    const Place& place = trainer.units().layout().place(p);
    const Units::Weights weights = trainer.units().weights(place.unit);
    const std::vector<float> values = to_host(weights.at(place));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// By site, then by rank.
inline std::vector<RankOutcome> run_sites(const SiteRunOptions& options) {
  LoopbackWorld world(options.world);
  const int ranks = options.world.ranks;
  std::vector<RankOutcome> outcomes(options.world.sites * ranks);
  run_threads(static_cast<int>(outcomes.size()), [&](int i) {
    const int site = i / ranks;
    const int rank = i % ranks;
    const auto optimizer = options.optimizer();
    const auto sync = sync_for(optimizer->traits(), world, site, rank);
    const auto model = options.model(site, rank);
    TrainerOptions of_trainer{.schedule = options.schedule,
                              .sites = options.world.sites,
                              .chunking = options.chunking,
                              .site = options.inside,
                              .guard = options.guard};
    if (options.device) of_trainer.device = options.device(site, rank);
    if (options.start) {
      of_trainer.start = [&](Shard& shard) { return options.start(shard, *optimizer, site); };
    }
    try {
      Collective& near = world.near(site, rank);
      const auto around = options.near ? options.near(near, rank) : nullptr;
      Trainer trainer(*model, around ? *around : near, *optimizer, *sync, of_trainer);
      while (trainer.steps_done() < options.steps) {
        if (options.before_step) options.before_step(trainer, world, site, rank);
        outcomes[i].reports.push_back(trainer.step());
      }
      outcomes[i].hash = trainer.state_hash();
      outcomes[i].traffic = sync->traffic();
      outcomes[i].skipped = trainer.skipped();
      if (options.at_end) options.at_end(trainer, site, rank);
    } catch (const std::exception& error) {
      world.fail(error.what());
      throw;
    }
  });
  return outcomes;
}

// All parameters of site 0 at the end.
inline std::vector<float> parameters_after(SiteRunOptions run) {
  std::vector<float> all;
  run.at_end = [&](Trainer& trainer, int site, int rank) {
    const std::vector<float> mine = gathered_parameters(trainer);
    if (site == 0 && rank == 0) all = mine;
  };
  run_sites(run);
  return all;
}

}  // namespace thinwire::test
