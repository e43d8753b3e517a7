#include "src/core/unit_store.h"

#include <algorithm>
#include <utility>

#include "src/core/near_math.h"
#include "thinwire/device.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"
#include "thinwire/range_kernels.h"

namespace thinwire {

UnitStore::UnitStore(const Model& model, Shard& shard, Collective& near, std::uint64_t seed,
                     const SiteOptions& options, Timeline& timeline, Device device)
    : shard_(shard),
      near_(near),
      options_(options),
      timeline_(timeline),
      seen_(shard.layout().seen_as(model.parameters())),
      device_(device),
      holds_whole_(near.size() == 1 || options.sharding == Sharding::none),
      lends_shard_(holds_whole_ && shard.device() == device),
      point_(shard.params()),
      unit_of_(seen_.units()),
      gradient_leased_(seen_.units()),
      units_(shard.layout().units()),
      queue_(options.prefetch && near.size() > 1, device.is_host() ? shard.device() : device) {
  const Layout& layout = shard.layout();
  for (int unit = 0; unit < layout.units(); ++unit) {
    units_[unit].frozen = FloatBuffer(layout.frozen_size(unit), device_);
    units_[unit].discarded = FloatBuffer(layout.frozen_size(unit), device_);
  }
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    unit_of_[seen_.place(i).unit] = layout.place(i).unit;
  }
  for (int unit : unit_of_) ++units_[unit].declared;
  initialize(model, seed);
}

void UnitStore::initialize(const Model& model, std::uint64_t seed) {
  const Layout& layout = shard_.layout();
  std::vector<float> values;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Place& place = layout.place(i);
    values.assign(place.size, 0.0f);
    model.initialize(i, seed, values);
    if (!place.trainable) {
      copy(values, units_[place.unit].frozen.floats().subspan(place.offset, place.size));
      continue;
    }
    const auto cuts = shard_.cuts(place.unit);
    const std::size_t begin = std::max(place.offset, cuts[shard_.rank()]);
    const std::size_t end = std::min(place.offset + place.size, cuts[shard_.rank() + 1]);
    if (begin >= end) continue;
    copy(ConstFloats(values).subspan(begin - place.offset, end - begin),
         shard_.params().subspan(shard_.unit_offset(place.unit) + begin - cuts[shard_.rank()],
                                 end - begin));
  }
}

std::size_t UnitStore::part_size(int unit) const {
  const auto cuts = shard_.cuts(unit);
  return cuts[shard_.rank() + 1] - cuts[shard_.rank()];
}

Floats UnitStore::grad_part(int unit) {
  return shard_.grad().subspan(shard_.unit_offset(unit), part_size(unit));
}

// Is it new, and so of zeros?
bool UnitStore::fit(FloatBuffer& buffer, std::size_t size) const {
  if (buffer.size() == size && buffer.device() == device_) return false;
  buffer = FloatBuffer(size, device_);
  return true;
}

void UnitStore::throw_kept() {
  if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
}

void UnitStore::begin_step() {
  queue_.settle();  // of a step that broke off
  reduced_ = reducing_ = 0;
  throw_kept();
  in_step_ = true;
  for (Unit& unit : units_) release(unit);  // the parameters have moved
}

void UnitStore::begin_pass(int micro) {
  micro_ = micro;
  order_.begin_pass();
  std::fill(gradient_leased_.begin(), gradient_leased_.end(), false);
  for (Unit& unit : units_) unit.gradients_taken = unit.gradients_back = 0;
}

void UnitStore::end_pass() {
  throw_kept();
  for (const bool leased : gradient_leased_) TW_CHECK(leased);
  for (const Unit& unit : units_) TW_CHECK(unit.weight_leases == 0);
}

void UnitStore::end_step() {
  timeline_.in(Phase::reduce, [this] { queue_.wait_for_all(); });
  for (Unit& unit : units_) release(unit);
  in_step_ = false;
}

// Whoever keeps parameters whole keeps their buffer for the next gather.
void UnitStore::release(Unit& unit) noexcept {
  if (unit.weight_leases > 0) return;
  unit.resident = false;
  if (options_.sharding == Sharding::full || holds_whole_) unit.weights = {};
}

void UnitStore::start_gather(int index) {
  units_[index].resident = true;
  const ConstFloats part = point_.subspan(shard_.unit_offset(index), part_size(index));
  units_[index].gathered = queue_.push([this, index, part] {
    const double begin_s = wall_s();
    Unit& unit = units_[index];
    const std::size_t size = shard_.layout().unit_size(index);
    fit(unit.weights, size);
    if (holds_whole_) {
      copy(part, unit.weights);
      if (options_.gather == NearType::bf16) kernels::round_to_bf16(unit.weights);
    } else {
      gather_unit(near_, part, unit.weights, shard_.cuts(index), options_.gather);
    }
    timeline_.near_worked(Phase::gather, index, queue_.has_thread(), begin_s);
  });
}

Units::Buffers<ConstFloats> UnitStore::take_weights(int declared) {
  throw_kept();
  const int index = unit_of_.at(declared);
  Unit& unit = units_[index];
  if (!copies()) {
    ++unit.weight_leases;
    return {point_.subspan(shard_.unit_offset(index), part_size(index)), unit.frozen};
  }
  if (unit.weight_leases == 0) {
    timeline_.in(Phase::gather, [&] {
      if (!unit.resident) start_gather(index);
      queue_.wait(unit.gathered);
    });
    if (in_step_) order_.taken(index);
    const int next = in_step_ && queue_.has_thread() ? order_.next() : -1;
    if (next >= 0 && !units_[next].resident) start_gather(next);
  }
  ++unit.weight_leases;
  return {unit.weights, unit.frozen};
}

void UnitStore::end_weights(int declared) noexcept {
  const int index = unit_of_[declared];
  Unit& unit = units_[index];
  if (--unit.weight_leases > 0 || !copies()) return;
  // What has come from the host stays on the device for the step.
  const bool from_afar = shard_.device() != device_;
  const bool whole = options_.sharding != Sharding::full && !holds_whole_;
  const bool kept = in_step_ && (order_.next() == index || whole || (holds_whole_ && from_afar));
  if (!kept) release(unit);
}

// The buffer is the shard's own where that is the whole model and nothing has to be added up.
Units::Buffers<Floats> UnitStore::take_gradient(int declared) {
  throw_kept();
  TW_CHECK(!gradient_leased_.at(declared));
  gradient_leased_[declared] = true;
  const int index = unit_of_[declared];
  Unit& unit = units_[index];
  const bool own = lends_shard_ && options_.accumulate == 1;
  if (unit.gradients_taken++ == 0) {
    if (own) {
      zero(grad_part(index));
    } else {
      // One gradient at a time is on its way: memory stays within two units. A device computes what
      // it was handed over before, so that there two are on their way, or it would have to wait.
      const NearQueue::Ticket done = device_.is_host() ? reducing_ : reduced_;
      timeline_.in(Phase::reduce, [&] { queue_.wait(done); });
      const std::size_t size = shard_.layout().unit_size(index);
      if (!fit(unit.gradient, size)) zero(unit.gradient);
    }
  }
  return {own ? grad_part(index) : unit.gradient.floats(), unit.discarded};
}

void UnitStore::end_gradient(int declared) noexcept {
  const int index = unit_of_[declared];
  Unit& unit = units_[index];
  try {
    // A destructor may not throw: the failure waits for the next take or the end of the step.
    if (std::uncaught_exceptions() > 0) {
      // The model failed while it held the lease; the other ranks may be in another operation.
      throw Error("a gradient was given back by a failure; this step cannot go on");
    }
    if (++unit.gradients_back < unit.declared || kept_) return;
    if (options_.accumulate > 1) add_up(index);
    if (micro_ + 1 == options_.accumulate) {
      timeline_.in(Phase::reduce, [&] { start_reduce(index); });
    }
  } catch (...) {
    kept_ = std::current_exception();
  }
}

// Adds the micro-batch's gradient to the sum, and makes the last sum the gradient: their mean.
void UnitStore::add_up(int index) {
  Unit& unit = units_[index];
  const bool last = micro_ + 1 == options_.accumulate;
  if (lends_shard_) {
    const Floats sum = grad_part(index);
    if (micro_ > 0) {
      kernels::scale_add(sum, 1.0f, unit.gradient, 1.0f);
    } else {
      copy(unit.gradient, sum);
    }
    if (last) kernels::scale(sum, 1.0f / static_cast<float>(options_.accumulate));
    unit.gradient = {};
    return;
  }
  if (micro_ > 0) {
    kernels::scale_add(unit.sum, 1.0f, unit.gradient, 1.0f);
    unit.gradient = {};
  } else {
    unit.sum = std::move(unit.gradient);
  }
  if (!last) return;
  kernels::scale(unit.sum, 1.0f / static_cast<float>(options_.accumulate));
  unit.gradient = std::move(unit.sum);
}

void UnitStore::start_reduce(int index) {
  const Floats part = grad_part(index);
  reduced_ = reducing_;
  reducing_ = queue_.push([this, index, part] {
    const double begin_s = wall_s();
    Unit& unit = units_[index];
    if (holds_whole_) {
      if (!lends_shard_) copy(unit.gradient, part);
      all_reduce_unit(near_, part, options_.reduce);
    } else {
      reduce_unit(near_, unit.gradient, part, shard_.cuts(index), options_.reduce);
    }
    if (options_.sharding != Sharding::optimizer) unit.gradient = {};
    timeline_.near_worked(Phase::reduce, index, queue_.has_thread(), begin_s);
  });
}

}  // namespace thinwire
