#include "src/core/near_math.h"

#include <vector>

#include "thinwire/device.h"
#include "thinwire/kernels.h"
#include "thinwire/range_kernels.h"

namespace thinwire {
namespace {

// Two bf16 values ride in the place of one float.
constexpr std::size_t packed_size(std::size_t floats) { return (floats + 1) / 2; }

// Where the packed parts of a unit lie: each begins with a float of its own.
std::vector<std::size_t> packed_cuts(Cuts cuts) {
  std::vector<std::size_t> packed{0};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    packed.push_back(packed.back() + packed_size(cuts[i + 1] - cuts[i]));
  }
  return packed;
}

template <class Span>
Span part_of(Span whole, Cuts cuts, int rank) {
  return whole.subspan(cuts[rank], cuts[rank + 1] - cuts[rank]);
}

// Floats on their way through the host's memory to a link that cannot reach their device. Pinned
// memory is slow to get, so that a thread keeps its own.
class Staged {
 public:
  Staged(FloatBuffer& buffer, std::size_t count) {
    if (buffer.size() < count) buffer = FloatBuffer(count, Device(), Pages::pinned);
    floats_ = buffer.floats().first(count);
  }
  operator Floats() const { return floats_; }

 private:
  Floats floats_;
};
thread_local FloatBuffer staged_whole;
thread_local FloatBuffer staged_mine;

// operation(mine, whole), both where the near link reaches them; what is `read` of the two is given
// to it, the other is its result.
enum class Reads { mine, whole };
template <class Operation>
void where_it_reaches(Collective& near, Floats mine, Floats whole, Reads reads,
                      const Operation& operation) {
  if (mine.device() == whole.device() && near.carries(mine.device())) {
    return operation(mine, whole);
  }
  const Floats my = mine.on_host() ? mine : Floats(Staged(staged_mine, mine.size()));
  const Floats all = whole.on_host() ? whole : Floats(Staged(staged_whole, whole.size()));
  if (reads == Reads::mine && !mine.on_host()) copy(mine, my);
  if (reads == Reads::whole && !whole.on_host()) copy(whole, all);
  operation(my, all);
  if (reads == Reads::whole && !mine.on_host()) copy(my, mine);
  if (reads == Reads::mine && !whole.on_host()) copy(all, whole);
}

// The collective only reads `mine`, which may lie inside `whole`.
Floats writable(ConstFloats floats) {
  return {const_cast<float*>(floats.data()), floats.size(), floats.device()};
}

void all_gather(Collective& near, ConstFloats mine, Floats whole, Cuts cuts) {
  where_it_reaches(near, writable(mine), whole, Reads::mine,
                   [&](Floats my, Floats all) { near.all_gather(my, all, cuts); });
}

}  // namespace

void gather_unit(Collective& near, ConstFloats mine, Floats whole, Cuts cuts, NearType type) {
  if (near.size() == 1) {
    copy(mine, whole);
    if (type == NearType::bf16) kernels::round_to_bf16(whole);
    return;
  }
  if (type == NearType::fp32) return all_gather(near, mine, whole, cuts);
  const std::vector<std::size_t> packed = packed_cuts(cuts);
  FloatBuffer all(packed.back(), whole.device());
  const Near here(mine, whole.device());
  const Floats own = part_of(all.floats(), packed, near.rank());
  kernels::pack_bf16(here, own);
  all_gather(near, own, all, packed);
  for (int rank = 0; rank < near.size(); ++rank) {
    kernels::unpack_bf16(part_of(all.floats(), packed, rank), part_of(whole, cuts, rank));
  }
}

void reduce_unit(Collective& near, Floats whole, Floats mine, Cuts cuts, NearType type) {
  if (near.size() == 1) {
    if (mine.data() != whole.data()) copy(whole, mine);
    if (type == NearType::bf16) kernels::round_to_bf16(mine);
    return;
  }
  if (type == NearType::fp32) {
    return where_it_reaches(near, mine, whole, Reads::whole, [&](Floats my, Floats all) {
      near.reduce_scatter_mean(all, my, cuts);
    });
  }
  const Device device = whole.device();
  const std::vector<std::size_t> packed = packed_cuts(cuts);
  FloatBuffer sent(packed.back(), device);
  for (int rank = 0; rank < near.size(); ++rank) {
    kernels::pack_bf16(part_of(whole, cuts, rank), part_of(sent.floats(), packed, rank));
  }
  const std::size_t length = packed_size(mine.size());
  FloatBuffer heard(length * near.size(), device);
  where_it_reaches(near, heard, sent, Reads::whole,
                   [&](Floats parts, Floats all) { near.all_to_all(all, parts, packed); });
  FloatBuffer values(mine.size(), device);
  FloatBuffer there;
  if (mine.device() != device) there = FloatBuffer(mine.size(), device);
  const Floats sum = mine.device() == device ? mine : there.floats();
  for (int rank = 0; rank < near.size(); ++rank) {
    kernels::unpack_bf16(heard.floats().subspan(length * rank, length), values);
    if (rank == 0) {
      copy(values, sum);
    } else {
      kernels::scale_add(sum, 1.0f, values, 1.0f);
    }
  }
  kernels::divide(sum, static_cast<float>(near.size()));
  if (mine.device() != device) copy(sum, mine);
}

void all_reduce_unit(Collective& near, Floats whole, NearType type) {
  if (type == NearType::fp32) {
    if (near.size() == 1) return;
    if (near.carries(whole.device())) return near.all_reduce_mean(whole);
    const Floats staged = Staged(staged_whole, whole.size());
    copy(whole, staged);
    near.all_reduce_mean(staged);
    return copy(staged, whole);
  }
  std::vector<std::size_t> cuts;
  for (int rank = 0; rank <= near.size(); ++rank) cuts.push_back(whole.size() * rank / near.size());
  const Floats mine = part_of(whole, cuts, near.rank());
  reduce_unit(near, whole, mine, cuts, type);
  if (near.size() > 1) all_gather(near, mine, whole, cuts);
}

}  // namespace thinwire
