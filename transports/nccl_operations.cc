// The arithmetic over NCCL. Means are made as on every other near link: each part goes to its owner
// from everyone, who sums it in member order, unless NCCL was asked to sum.
#include <algorithm>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "transports/nccl_rank_internal.h"

namespace thinwire::near {
namespace {

// Cuts of every member are compared as one number.
std::uint64_t hash_of(Cuts cuts) { return hash64(std::as_bytes(cuts)); }

std::size_t length_of(Cuts cuts, std::size_t member) { return cuts[member + 1] - cuts[member]; }

std::size_t longest(Cuts cuts) {
  std::size_t most = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) most = std::max(most, length_of(cuts, i));
  return most;
}

bool equal_parts(Cuts cuts) {
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (length_of(cuts, i) != length_of(cuts, 0)) return false;
  }
  return length_of(cuts, 0) > 0;
}

template <class Span>
Span part_of(Span whole, Cuts cuts, std::size_t member) {
  return whole.subspan(cuts[member], length_of(cuts, member));
}

// Of one member's part: its `turn`-th piece, perhaps empty.
template <class Span>
Span piece_of(Span part, std::size_t turn, std::size_t piece) {
  const std::size_t begin = std::min(part.size(), turn * piece);
  return part.subspan(begin, std::min(piece, part.size() - begin));
}

std::size_t turns_of(Cuts cuts, std::size_t piece) { return (longest(cuts) + piece - 1) / piece; }

// The cuts of the `turn`-th pieces of all parts, one behind the other.
std::vector<std::size_t> cuts_of(Cuts cuts, std::size_t turn, std::size_t piece) {
  std::vector<std::size_t> pieces{0};
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::size_t length = length_of(cuts, i);
    pieces.push_back(pieces.back() + std::min(piece, length - std::min(length, turn * piece)));
  }
  return pieces;
}

void copy_unless_same(ConstFloats from, Floats to) {
  if (from.data() != to.data()) copy(from, to);
}

}  // namespace

void NcclRank::reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) {
  TW_CHECK(cuts.size() == static_cast<std::size_t>(size()) + 1 && cuts.back() == whole.size());
  TW_CHECK(mine.size() == length_of(cuts, rank()));
  if (size() == 1) return copy_unless_same(whole, mine);
  perform(NcclCall::reduce_scatter_mean, whole.size(), hash_of(cuts), [&] {
    is_direct(whole) && is_direct(mine) ? scatter(whole, mine, cuts)
                                        : scatter_staged(whole, mine, cuts);
  });
  count(whole.size() - mine.size(), mine.size() * (size() - 1));
}

void NcclRank::all_gather(ConstFloats mine, Floats whole, Cuts cuts) {
  TW_CHECK(cuts.size() == static_cast<std::size_t>(size()) + 1 && cuts.back() == whole.size());
  TW_CHECK(mine.size() == length_of(cuts, rank()));
  if (size() == 1) return copy_unless_same(mine, whole);
  perform(NcclCall::all_gather, whole.size(), hash_of(cuts), [&] {
    is_direct(mine) && is_direct(whole) ? gather(mine, whole, cuts)
                                        : gather_staged(mine, whole, cuts);
  });
  count(mine.size() * (size() - 1), whole.size() - mine.size());
}

// Everyone sums an even part, then all take the sums: each way 2 (n-1)/n of the data, as a ring,
// and equal bits whoever sums.
void NcclRank::all_reduce_mean(Floats whole) {
  if (size() == 1) return;
  std::vector<std::size_t> cuts;
  for (int member = 0; member <= size(); ++member) cuts.push_back(whole.size() * member / size());
  const Floats mine = part_of(whole, cuts, rank());
  perform(NcclCall::all_reduce_mean, whole.size(), 0, [&] {
    if (is_direct(whole)) {
      scatter(whole, mine, cuts);
      gather(mine, whole, cuts);
    } else {
      scatter_staged(whole, mine, cuts);
      gather_staged(mine, whole, cuts);
    }
  });
  const std::size_t others = whole.size() - mine.size();
  count(others + mine.size() * (size() - 1), mine.size() * (size() - 1) + others);
}

void NcclRank::broadcast(Floats data, int root) {
  TW_CHECK(root >= 0 && root < size());
  if (size() == 1) return;
  perform(NcclCall::broadcast, data.size(), static_cast<std::uint64_t>(root), [&] {
    const bool direct = is_direct(data);
    const std::size_t most = direct ? std::max<std::size_t>(1, data.size()) : options_.piece;
    for (std::size_t begin = 0; begin < data.size(); begin += most) {
      const Floats piece = data.subspan(begin, std::min(most, data.size() - begin));
      const Floats there = direct ? piece : in_.first(piece.size());
      if (!direct && rank() == root) copy(piece, there);
      group([&] { call(api().broadcast(there, root, comm())); });
      if (!direct && rank() != root) copy(there, piece);
    }
  });
  rank() == root ? count(data.size() * (size() - 1), 0) : count(0, data.size());
}

void NcclRank::barrier() {
  if (size() == 1) return;
  perform(NcclCall::barrier, 0, 0, [&] {
    const Floats one = scratch_.first(1);
    group([&] { call(api().all_reduce_mean(one, comm())); });
  });
}

void NcclRank::all_to_all(ConstFloats whole, Floats parts, Cuts cuts) {
  const std::size_t mine = length_of(cuts, rank());
  TW_CHECK(cuts.size() == static_cast<std::size_t>(size()) + 1 && cuts.back() == whole.size());
  TW_CHECK(parts.size() == mine * size());
  if (size() == 1) return copy_unless_same(whole, parts);
  perform(NcclCall::all_to_all, whole.size(), hash_of(cuts), [&] {
    if (is_direct(whole) && is_direct(parts)) return exchange(whole, parts, cuts);
    for (std::size_t turn = 0; turn < turns_of(cuts, options_.piece); ++turn) {
      const std::vector<std::size_t> pieces = cuts_of(cuts, turn, options_.piece);
      const std::size_t own = length_of(pieces, rank());
      const Floats in = in_.first(pieces.back());
      const Floats out = out_.first(own * size());
      for (int to = 0; to < size(); ++to) {
        copy(piece_of(part_of(whole, cuts, to), turn, options_.piece), part_of(in, pieces, to));
      }
      exchange(in, out, pieces);
      for (int from = 0; from < size(); ++from) {
        copy(out.subspan(own * from, own),
             piece_of(parts.subspan(mine * from, mine), turn, options_.piece));
      }
    }
  });
  count(whole.size() - mine, mine * (size() - 1));
}

void NcclRank::scatter(ConstFloats whole, Floats mine, Cuts cuts) {
  options_.sums == NcclSums::exact ? scatter_exact(whole, mine, cuts)
                                   : scatter_fast(whole, mine, cuts);
}

// In turns, so that what waits to be summed needs little memory.
void NcclRank::scatter_exact(ConstFloats whole, Floats mine, Cuts cuts) {
  const ConstFloats own = part_of(whole, cuts, rank());
  std::vector<const float*> sources(size());
  for (std::size_t turn = 0; turn < turns_of(cuts, options_.piece); ++turn) {
    const Floats to = piece_of(mine, turn, options_.piece);
    const Floats heard = scratch_.first(to.size() * size());
    group([&] {
      for (int other = 0; other < size(); ++other) {
        const Floats theirs = heard.subspan(to.size() * other, to.size());
        sources[other] = theirs.data();
        if (other == rank()) continue;
        const ConstFloats said = piece_of(part_of(whole, cuts, other), turn, options_.piece);
        if (!said.empty()) call(api().send(said, other, comm()));
        if (!theirs.empty()) call(api().recv(theirs, other, comm()));
      }
    });
    sources[rank()] = piece_of(own, turn, options_.piece).data();
    if (!to.empty()) api().mean(sources, to);
  }
  wait();
}

void NcclRank::scatter_fast(ConstFloats whole, Floats mine, Cuts cuts) {
  if (longest(cuts) == 0) return;
  group([&] {
    if (equal_parts(cuts)) return call(api().reduce_scatter_mean(whole, mine, comm()));
    for (int root = 0; root < size(); ++root) {
      const ConstFloats part = part_of(whole, cuts, root);
      if (!part.empty()) call(api().reduce_mean(part, mine, root, comm()));
    }
  });
}

void NcclRank::gather(ConstFloats mine, Floats whole, Cuts cuts) {
  const bool equal = equal_parts(cuts);
  if (longest(cuts) == 0) return;
  if (!equal) copy_unless_same(mine, part_of(whole, cuts, rank()));
  group([&] {
    if (equal) return call(api().all_gather(mine, whole, comm()));
    for (int root = 0; root < size(); ++root) {
      const Floats part = part_of(whole, cuts, root);
      if (!part.empty()) call(api().broadcast(part, root, comm()));
    }
  });
}

void NcclRank::exchange(ConstFloats whole, Floats parts, Cuts cuts) {
  if (longest(cuts) == 0) return;
  const std::size_t mine = length_of(cuts, rank());
  copy(part_of(whole, cuts, rank()), parts.subspan(mine * rank(), mine));
  group([&] {
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      const ConstFloats said = part_of(whole, cuts, other);
      if (!said.empty()) call(api().send(said, other, comm()));
      if (mine > 0) call(api().recv(parts.subspan(mine * other, mine), other, comm()));
    }
  });
}

void NcclRank::scatter_staged(ConstFloats whole, Floats mine, Cuts cuts) {
  for (std::size_t turn = 0; turn < turns_of(cuts, options_.piece); ++turn) {
    const std::vector<std::size_t> pieces = cuts_of(cuts, turn, options_.piece);
    const Floats there = in_.first(pieces.back());
    for (int to = 0; to < size(); ++to) {
      copy(piece_of(part_of(whole, cuts, to), turn, options_.piece), part_of(there, pieces, to));
    }
    const Floats own = part_of(there, pieces, rank());
    scatter(there, own, pieces);
    copy(own, piece_of(mine, turn, options_.piece));
  }
}

void NcclRank::gather_staged(ConstFloats mine, Floats whole, Cuts cuts) {
  for (std::size_t turn = 0; turn < turns_of(cuts, options_.piece); ++turn) {
    const std::vector<std::size_t> pieces = cuts_of(cuts, turn, options_.piece);
    const Floats there = in_.first(pieces.back());
    const Floats own = part_of(there, pieces, rank());
    copy(piece_of(mine, turn, options_.piece), own);
    gather(own, there, pieces);
    for (int from = 0; from < size(); ++from) {
      copy(part_of(there, pieces, from),
           piece_of(part_of(whole, cuts, from), turn, options_.piece));
    }
  }
}

void NcclRank::count(std::size_t floats_sent, std::size_t floats_received) {
  traffic_.bytes_sent += floats_sent * sizeof(float);
  traffic_.bytes_received += floats_received * sizeof(float);
}

}  // namespace thinwire::near
