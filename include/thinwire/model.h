// What is trained. A model declares parameters and computes a loss and its gradient, unit by unit;
// it never sees optimizers or transports.
//
// Units lends the buffers: weights(u) gathers a unit's parameters for as long as the lease lives;
// gradient(u) lends a zeroed buffer that is averaged over the ranks of the site when the lease
// ends. All ranks of a site must take leases in the same order. Training thread only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "thinwire/layout.h"
#include "thinwire/step.h"
#include "thinwire/types.h"

namespace thinwire {

class Units {
 public:
  // A unit's floats: the trainable buffer and the frozen one.
  template <class Span>
  struct Buffers {
    Span trainable;
    Span frozen;
    Span at(const Place& place) const {
      return (place.trainable ? trainable : frozen).subspan(place.offset, place.size);
    }
  };

  // Move-only; its end gives the buffers back.
  template <class Span>
  class Lease {
   public:
    using End = void (Units::*)(int) noexcept;
    Lease(Units& units, int unit, Buffers<Span> buffers, End end)
        : units_(&units), unit_(unit), buffers_(buffers), end_(end) {}
    Lease(Lease&& other) noexcept
        : units_(std::exchange(other.units_, nullptr)),
          unit_(other.unit_),
          buffers_(other.buffers_),
          end_(other.end_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (units_ != nullptr) (units_->*end_)(unit_);
    }
    Span at(const Place& place) const { return buffers_.at(place); }

   private:
    Units* units_;
    int unit_;
    Buffers<Span> buffers_;
    End end_;
  };
  using Weights = Lease<ConstFloats>;
  using Gradient = Lease<Floats>;

  virtual ~Units() = default;
  virtual const Layout& layout() const = 0;

  Weights weights(int unit) { return {*this, unit, take_weights(unit), &Units::end_weights}; }
  // Writing the gradient of a frozen parameter is allowed and has no effect.
  Gradient gradient(int unit) { return {*this, unit, take_gradient(unit), &Units::end_gradient}; }

 protected:
  virtual Buffers<ConstFloats> take_weights(int unit) = 0;
  virtual Buffers<Floats> take_gradient(int unit) = 0;
  // A failure in here is kept and thrown by the next take or by the trainer.
  virtual void end_weights(int unit) noexcept = 0;
  virtual void end_gradient(int unit) noexcept = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual std::vector<ParameterSpec> parameters() const = 0;

  // Fills parameter `index` with its initial values: a function of seed and index alone.
  virtual void initialize(std::size_t index, std::uint64_t seed, Floats values) const = 0;

  // Mean loss over this rank's part of the batch of step.index, or of its micro-batch step.micro;
  // leaves its gradient in the units. The batch is a function of step.index (and micro) alone.
  // Every unit's gradient is leased exactly once.
  virtual float loss_and_grad(Units& units, const Step& step) = 0;
};

}  // namespace thinwire
