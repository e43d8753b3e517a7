// Local steps: every site follows its own gradients with an inner rule and says, every h steps, how
// far it has moved; an outer rule moves the common parameters, the anchor, by what was said. DiLoCo
// (Douillard et al. 2023), Streaming DiLoCo (2025), SparseLoCo (2025), MuLoCo (2025), averaging of
// weights and mural_local are settings of it (local_methods.cc).
//
//   every step:  x = inner rule(x, g)                     g at the site's own x
//
//   due part:    E = decay E + T(a - x)                   a: anchor; without feedback E = T(a - x)
//                say the k largest of each tile, coarse;  E -= what was said
//
//   its apply:   D = inverse T(sum of what was said / sites, or / those who said it)
//                a = outer rule(a, D)
//                x = a + (x - x when it was said)         drift merge
//                x = alpha x + (1 - alpha) a              alpha merge; 0: x = a
//
// Sites that had nothing to say keep what they did: x moves as a moved. So do sites that were not
// heard, without feedback; with it E has what they said, and x is merged. The
// part of the model called due in a step is fragment f of F, (step + 1) mod h == f h / F: units or
// tiles taken in turn. The states of the outer rule and the anchor are replicated, all others own.
// local_words.cc holds what is said and how it is combined, local_steps.cc the rest.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "optimizers/demo.h"
#include "optimizers/rule.h"
#include "thinwire/coarse.h"

namespace thinwire {

enum class Merge { drift, alpha };

class LocalSteps final : public Optimizer {
 public:
  struct Options {
    std::string name;
    float suggested_lr = 8e-3f;  // of the inner rule
    std::shared_ptr<const Rule> inner = nullptr;
    std::shared_ptr<const Rule> outer = nullptr;  // its states begin with "outer_"
    float weight_decay = 0.1f;                    // inner
    float clip = 1.0f;                            // of this site's gradient
    float outer_lr = 1.0f;
    int h = 30;            // steps between two words about a part, 1 .. 100000
    int fragments = 1;     // F, 1 .. h
    bool by_tile = false;  // fragments are tiles taken in turn, or else units
    bool reduce = false;   // the mean of dense updates; F = 1, no delay
    int k = 4096;          // of a tile
    Coarse coarse = Coarse::plain;
    bool feedback = false;  // keep E
    float decay = 1.0f;     // of E
    kernels::Basis basis = kernels::Basis::none;
    Combine combine = Combine::sites;
    Merge merge = Merge::alpha;
    float alpha = 0.0f;
    int delay = 0;  // 0 .. 8, below h; 0 with h = 1
  };

  explicit LocalSteps(Options options);  // throws UsageError for settings that contradict

  std::string_view name() const override { return options_.name; }
  Traits traits() const override;
  bool speaks(const Step& step) const override;
  Update extract(const Step& step, Shard& shard) override;
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override;
  void take_back(const Step& said, Shard& shard, const Update& unheard) override;
  Floats gradient_point(const Step& step, Shard& shard) override;

 private:
  bool drifts() const;
  bool due(std::uint64_t step, int fragment) const;
  std::vector<std::size_t> due_tiles(const Shard& shard, std::uint64_t step) const;
  std::vector<Piece> runs_of(const Shard& shard, const std::vector<std::size_t>& tiles) const;
  Update all_of_it(Shard& shard) const;
  Update picks_of_it(Shard& shard, const std::vector<std::size_t>& tiles);
  Floats owed(Shard& shard, std::size_t tile);
  void say(Shard& shard, std::size_t tile, Picks& picks);
  std::size_t choose(const Tile& tile, ConstFloats values, std::uint16_t* positions) const;
  void sum_up(const Shard& shard, std::span<const Contribution> heard, int sites,
              const std::vector<std::size_t>& tiles, Floats into) const;
  void owe_again(Shard& shard, const Picks& picks) const;
  bool counts_turns() const;
  void begin(Shard& shard) const;
  void begin_outer(Shard& shard, std::uint64_t said) const;
  float& handed(Shard& shard, std::uint64_t step) const;
  void hear(const Step& said, Shard& shard, std::span<const Contribution> heard);
  void outer_step(Shard& shard, const Piece& run, Floats moved, bool handed_over) const;
  void merge(Shard& shard, const Piece& run, ConstFloats before) const;

  Options options_;
  std::vector<float> scratch_;  // of a tile
  std::vector<float> chosen_;
};

}  // namespace thinwire
