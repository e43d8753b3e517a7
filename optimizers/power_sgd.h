// PowerSGD (Vogels et al. 2019, algorithm 1): low-rank gradients with error feedback, in two
// exchanges a step. For every matrix of n columns, with what the site owes E:
//
//   D = E + g;  say P = D Q                         Q: n x rank, from the last step
//   P = mean over sites, orthonormalised;  say Q = D' P
//   Q = mean over sites;  G = P Q';  E = D - G;     x follows G by a rule
//
// Vectors, and matrices for which this would not save anything, are said as they are. E of a site
// that was not heard stays whole.
#pragma once

#include <memory>
#include <vector>

#include "optimizers/rule.h"
#include "thinwire/optimizer.h"

namespace thinwire {

class PowerSgd final : public Optimizer {
 public:
  struct Options {
    int rank = 4;             // 1 .. 64
    float min_saving = 1.0f;  // a matrix is compressed if that many times fewer values are said
    float weight_decay = 0.0f;
    float clip = 1.0f;  // of this site's gradient
    std::shared_ptr<const Rule> rule = nullptr;
  };
  explicit PowerSgd(Options options);

  std::string_view name() const override { return "powersgd"; }
  Traits traits() const override;
  Update extract(const Step& step, Shard& shard) override;
  Update apply(const Step& step, Shard& shard, std::span<const Contribution> heard) override;
  void take_back(const Step& said, Shard& shard, const Update& unheard) override;

 private:
  bool compresses(const Shard& shard, const Piece& piece) const;
  std::size_t said_size(const Shard& shard, int phase) const;
  Floats factor(Shard& shard, const Piece& piece, std::size_t column_tile) const;
  std::vector<float> right_factor(Shard& shard, const Piece& piece) const;
  void keep_right_factor(Shard& shard, const Piece& piece, ConstFloats q) const;
  void orthonormalize_first(const Shard& shard);
  Update say_right_factors(Shard& shard) const;
  void follow(const Step& step, Shard& shard, ConstFloats right_factors);

  Options options_;
  // Between the two exchanges of a step: the means of the first, their P orthonormalised.
  std::vector<float> first_;
};

}  // namespace thinwire
