// A run over loopback that saves and goes on, with an optimizer of the catalog: "distro:delay=1".
#pragma once

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "optimizers/catalog.h"
#include "tests/support/model_on_host.h"
#include "tests/support/site_run.h"
#include "thinwire/checkpoint_writer.h"

namespace thinwire::test {

struct SavedRun {
  int sites = 1;
  int ranks = 1;
  std::string method = "adamw";
  std::filesystem::path dir = {};
  int keep_last = 3;
  std::uint64_t keep_every = 0;
  const Checkpoint* checkpoint = nullptr;  // to go on from, when training begins behind step 0
  Residuals residuals_rule = Residuals::fold;
  std::vector<ParameterSpec> parameters = {};
  std::function<void()> before_save = {};
  SiteOptions inside = {};
  std::function<std::unique_ptr<Optimizer>()> other = {};  // than one of the catalog
  Device device = {};                                      // of all ranks

  std::unique_ptr<Optimizer> make() const {
    if (other) return other();
    std::map<std::string, std::string> settings;
    std::string name = method.substr(0, method.find(':'));
    for (std::size_t at = name.size(); at < method.size();) {
      const std::size_t equals = method.find('=', at);
      const std::size_t end = std::min(method.find(':', equals), method.size());
      settings[method.substr(at + 1, equals - at - 1)] =
          method.substr(equals + 1, end - equals - 1);
      at = end;
    }
    Settings of_method(name, settings);
    return optimizer_catalog().make(name, of_method);
  }

  SiteRunOptions options(std::uint64_t begin, std::uint64_t end) const {
    SiteRunOptions run;
    run.world = {.sites = sites, .ranks = ranks};
    run.steps = end;
    run.inside = inside;
    run.schedule = {.shape = ScheduleShape::constant, .peak = 0.02f};
    run.optimizer = [this] { return make(); };
    run.model = [this](int site, int) {
      auto model = std::make_unique<ToyModel>(ToyOptions{.site = site, .parameters = parameters});
      return model_for(device, std::move(model));
    };
    run.device = [this](int, int) { return device; };
    if (begin > 0) {
      run.start = [this](Shard& shard, Optimizer& optimizer, int site) {
        return checkpoint->load(
            {.site = site, .saved_sites = sites, .sites = sites, .residuals = residuals_rule},
            shard, optimizer);
      };
    }
    return run;
  }

  // From step `begin` to `end`, saving after every `save_every` steps; the hash at the end, equal
  // on all ranks (or 0).
  std::uint64_t train(std::uint64_t begin, std::uint64_t end, std::uint64_t save_every = 0) const {
    SiteRunOptions run = options(begin, end);
    std::unique_ptr<CheckpointWriter> writer;
    if (save_every > 0) {
      writer = std::make_unique<CheckpointWriter>(CheckpointOptions{.dir = dir,
                                                                    .sites = sites,
                                                                    .saved_sites = sites,
                                                                    .ranks = ranks,
                                                                    .ranks_here = ranks,
                                                                    .keep_last = keep_last,
                                                                    .keep_every = keep_every});
      const auto save = [&](Trainer& trainer, int site, int rank) {
        if (trainer.steps_done() == begin || trainer.steps_done() % save_every != 0) return;
        if (before_save) before_save();
        writer->save({site, rank}, trainer);
      };
      run.before_step = [save](Trainer& trainer, LoopbackWorld&, int site, int rank) {
        save(trainer, site, rank);
      };
      run.at_end = save;
    }
    const std::vector<RankOutcome> outcomes = run_sites(run);
    if (writer) writer->flush();
    for (const RankOutcome& one : outcomes) {
      if (one.hash != outcomes[0].hash) return 0;
    }
    return outcomes[0].hash;
  }

  // What each site owes when it goes on: the sum over its residual.
  std::vector<double> residuals(const Checkpoint* from) const {
    SavedRun copy = *this;
    copy.checkpoint = from;
    std::vector<double> sums(static_cast<std::size_t>(sites * ranks));
    SiteRunOptions run = copy.options(1, from->step());
    run.at_end = [&](Trainer& trainer, int site, int rank) {
      const ConstFloats residual = trainer.shard().state("residual");
      sums[static_cast<std::size_t>(site * ranks + rank)] =
          std::accumulate(residual.begin(), residual.end(), 0.0);
    };
    run_sites(run);
    std::vector<double> by_site(static_cast<std::size_t>(sites));
    for (std::size_t i = 0; i < sums.size(); ++i)
      by_site[i / static_cast<std::size_t>(ranks)] += sums[i];
    return by_site;
  }
};

}  // namespace thinwire::test
