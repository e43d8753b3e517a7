// Lends a site's units to the model: gathers parameters from the ranks' shards on take, averages
// gradients back into them on release. With one rank the shard itself is lent and nothing is
// copied.
#pragma once

#include <exception>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/model.h"
#include "thinwire/shard.h"

namespace thinwire {

class UnitStore final : public Units {
 public:
  // Fills the shard's parameters and the frozen ones with the model's initial values.
  UnitStore(const Model& model, Shard& shard, Collective& near, std::uint64_t seed);

  const Layout& layout() const override { return shard_.layout(); }

  ConstFloats frozen(int unit) const { return units_.at(unit).frozen; }
  // From now on weights are gathered from `point`, this rank's floats in the order of params().
  void take_from(ConstFloats point) { point_ = point; }
  // Forgets which gradients of the step were leased; throws what a lease's end could not throw.
  void begin_step();
  // Throws a kept failure; aborts when some unit's gradient was not leased.
  void end_step();

 protected:
  Buffers<ConstFloats> take_weights(int unit) override;
  Buffers<Floats> take_gradient(int unit) override;
  void end_weights(int unit) noexcept override;
  void end_gradient(int unit) noexcept override;

 private:
  struct Unit {
    std::vector<float> weights;  // gathered; empty while not leased, or with one rank
    std::vector<float> gradient;
    std::vector<float> frozen;     // the same on every rank
    std::vector<float> discarded;  // where the model may write gradients of frozen parameters
    int weight_leases = 0;
    bool gradient_leased = false;
  };
  std::size_t part_size(int unit) const;
  void throw_kept();

  Shard& shard_;
  Collective& near_;
  ConstFloats point_;
  std::vector<Unit> units_;
  std::exception_ptr kept_;
};

}  // namespace thinwire
