#include "src/core/unit_store.h"

#include <algorithm>
#include <utility>

#include "thinwire/error.h"

namespace thinwire {

UnitStore::UnitStore(const Model& model, Shard& shard, Collective& near, std::uint64_t seed)
    : shard_(shard), near_(near), point_(shard.params()), units_(shard.layout().units()) {
  const Layout& layout = shard.layout();
  for (int unit = 0; unit < layout.units(); ++unit) {
    units_[unit].frozen.resize(layout.frozen_size(unit));
    units_[unit].discarded.resize(layout.frozen_size(unit));
  }
  std::vector<float> values;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Place& place = layout.place(i);
    values.assign(place.size, 0.0f);
    model.initialize(i, seed, values);
    if (!place.trainable) {
      std::copy(values.begin(), values.end(), units_[place.unit].frozen.begin() + place.offset);
      continue;
    }
    const auto cuts = shard.cuts(place.unit);
    const std::size_t begin = std::max(place.offset, cuts[shard.rank()]);
    const std::size_t end = std::min(place.offset + place.size, cuts[shard.rank() + 1]);
    if (begin >= end) continue;
    std::copy(values.begin() + (begin - place.offset), values.begin() + (end - place.offset),
              shard.params().begin() + shard.unit_offset(place.unit) + begin - cuts[shard.rank()]);
  }
}

std::size_t UnitStore::part_size(int unit) const {
  const auto cuts = shard_.cuts(unit);
  return cuts[shard_.rank() + 1] - cuts[shard_.rank()];
}

void UnitStore::throw_kept() {
  if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
}

void UnitStore::begin_step() {
  throw_kept();
  for (Unit& unit : units_) unit.gradient_leased = false;
}

void UnitStore::end_step() {
  throw_kept();
  for (const Unit& unit : units_) TW_CHECK(unit.gradient_leased && unit.weight_leases == 0);
}

Units::Buffers<ConstFloats> UnitStore::take_weights(int unit) {
  throw_kept();
  Unit& wanted = units_.at(unit);
  const ConstFloats part = point_.subspan(shard_.unit_offset(unit), part_size(unit));
  if (near_.size() == 1) {
    ++wanted.weight_leases;
    return {part, wanted.frozen};
  }
  if (wanted.weight_leases++ == 0) {
    wanted.weights.resize(layout().unit_size(unit));
    near_.all_gather(part, wanted.weights, shard_.cuts(unit));
  }
  return {wanted.weights, wanted.frozen};
}

void UnitStore::end_weights(int unit) noexcept {
  Unit& done = units_[unit];
  if (--done.weight_leases == 0) std::vector<float>().swap(done.weights);
}

Units::Buffers<Floats> UnitStore::take_gradient(int unit) {
  throw_kept();
  Unit& wanted = units_.at(unit);
  TW_CHECK(!wanted.gradient_leased);
  wanted.gradient_leased = true;
  if (near_.size() == 1) {
    const Floats part = shard_.grad().subspan(shard_.unit_offset(unit), part_size(unit));
    std::fill(part.begin(), part.end(), 0.0f);
    return {part, wanted.discarded};
  }
  wanted.gradient.assign(layout().unit_size(unit), 0.0f);
  return {wanted.gradient, wanted.discarded};
}

void UnitStore::end_gradient(int unit) noexcept {
  if (near_.size() == 1) return;
  Unit& done = units_[unit];
  try {
    // A destructor may not throw: the failure waits for the next take or the end of the step.
    if (std::uncaught_exceptions() > 0) {
      // The model failed while it held the lease; the other ranks may be in another operation.
      throw Error("a gradient was given back by a failure; this step cannot go on");
    }
    if (!kept_) {
      near_.reduce_scatter_mean(done.gradient,
                                shard_.grad().subspan(shard_.unit_offset(unit), part_size(unit)),
                                shard_.cuts(unit));
    }
  } catch (...) {
    kept_ = std::current_exception();
  }
  std::vector<float>().swap(done.gradient);
}

}  // namespace thinwire
