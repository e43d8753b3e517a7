// Lends a site's units to the model: gathers parameters from the ranks' shards on take, averages
// gradients back into them on release. Where a rank's shard is the whole model it is lent itself
// and nothing is copied, unless values have to be rounded or to change the device: the model's
// buffers lie on its device, the shard where its optimizer works.
//
// The model asks by the units that it declared; several may be wrapped in one unit of the layout,
// which is gathered and reduced as a whole.
#pragma once

#include <exception>
#include <vector>

#include "src/core/near_queue.h"
#include "src/core/timeline.h"
#include "src/core/unit_order.h"
#include "thinwire/collective.h"
#include "thinwire/model.h"
#include "thinwire/shard.h"
#include "thinwire/site_options.h"

namespace thinwire {

class UnitStore final : public Units {
 public:
  // Fills the shard's parameters and the frozen ones with the model's initial values.
  UnitStore(const Model& model, Shard& shard, Collective& near, std::uint64_t seed,
            const SiteOptions& options, Timeline& timeline, Device device);

  // The places of the shard's layout, under the units that the model declared.
  const Layout& layout() const override { return seen_; }

  ConstFloats frozen(int unit) const { return units_.at(unit).frozen; }
  // From now on weights are gathered from `point`, this rank's floats in the order of params().
  void take_from(ConstFloats point) { point_ = point; }
  // A step is one pass of the model for each micro-batch. Throws what a lease's end could not.
  void begin_step();
  void begin_pass(int micro);
  // Throws a kept failure; aborts when some unit's gradient was not leased.
  void end_pass();
  // Until the mean gradient is in the shard.
  void end_step();

 protected:
  Buffers<ConstFloats> take_weights(int declared) override;
  Buffers<Floats> take_gradient(int declared) override;
  void end_weights(int declared) noexcept override;
  void end_gradient(int declared) noexcept override;

 private:
  struct Unit {
    FloatBuffer weights;    // gathered; the near thread's until `gathered` is done
    FloatBuffer gradient;   // lent, then the near thread's until it is reduced
    FloatBuffer sum;        // of the gradients of micro-batches
    FloatBuffer frozen;     // the same on every rank
    FloatBuffer discarded;  // where the model may write gradients of frozen parameters
    int declared = 0;       // how many declared units it holds
    int weight_leases = 0;
    bool resident = false;  // weights are there or on their way
    NearQueue::Ticket gathered = 0;
    int gradients_taken = 0;  // of its declared units, in this pass
    int gradients_back = 0;
  };

  void initialize(const Model& model, std::uint64_t seed);
  std::size_t part_size(int unit) const;
  Floats grad_part(int unit);
  bool copies() const { return !lends_shard_ || options_.gather != NearType::fp32; }
  bool fit(FloatBuffer& buffer, std::size_t size) const;
  void start_gather(int unit);
  void release(Unit& unit) noexcept;
  void add_up(int unit);
  void start_reduce(int unit);
  void throw_kept();

  Shard& shard_;
  Collective& near_;
  const SiteOptions options_;
  Timeline& timeline_;
  const Layout seen_;
  const Device device_;     // the model's
  const bool holds_whole_;  // this rank's shard is the whole model,
  const bool lends_shard_;  // where the model needs it
  ConstFloats point_;
  std::vector<int> unit_of_;  // by declared unit
  std::vector<bool> gradient_leased_;
  std::vector<Unit> units_;
  UnitOrder order_;
  bool in_step_ = false;
  int micro_ = 0;
  NearQueue::Ticket reducing_ = 0;  // the last reduction,
  NearQueue::Ticket reduced_ = 0;   // and the one before it
  std::exception_ptr kept_;
  NearQueue queue_;  // the last member: its thread works on the others
};

}  // namespace thinwire
