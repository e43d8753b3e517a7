// The functions of tile_kernels.h on the host: a tile after another, while it is at hand.
#include <algorithm>
#include <array>
#include <cstddef>

#include "src/kernels/basis.h"
#include "src/kernels/device_kernels.h"
#include "src/kernels/extent.h"
#include "thinwire/error.h"
#include "thinwire/kernels.h"
#include "thinwire/tile_kernels.h"

namespace thinwire::kernels {
namespace {

constexpr std::size_t kArea = kSideMax * kSideMax;

// The same tile in a buffer that begins `origin` floats later.
Tile from_origin(Tile tile, std::size_t origin) {
  TW_CHECK(origin <= tile.offset);
  tile.offset -= origin;
  return tile;
}

// Where its last value ends.
std::size_t end_of(const Tile& tile) {
  const std::size_t last = used_rows(tile) - 1;
  return tile.offset + last * tile.stride + (tile.tail > 0 ? tile.tail : tile.cols);
}

// The tiles from `first` on that lie beside each other and fill whole rows of their block.
std::size_t end_of_row(Tiles tiles, std::size_t first) {
  const std::size_t begin = tiles[first].offset;
  std::size_t filled = tiles[first].cols;
  std::size_t next = first + 1;
  while (filled < tiles[first].stride && next < tiles.size() &&
         tiles[next].offset == begin + filled) {
    filled += tiles[next++].cols;
  }
  // Of a part of a row, what lies between its lines is not ours.
  return filled == tiles[first].stride ? next : first + 1;
}

template <class Span>
Span coefficients(const Tile& tile, Span state) {
  return state.subspan(tile.coefficients, tile.height * tile.width);
}

// visit(row of the tile, its valid values)
template <class Visit>
void for_each_row(const Tile& tile, const Visit& visit) {
  for (std::size_t row = 0; row < used_rows(tile); ++row) {
    visit(row, row < tile.rows ? tile.cols : tile.tail);
  }
}

struct List {
  Floats positions;
  Floats values;
};
List list_of(const Lists& lists, std::size_t tile) {
  const Floats both = lists.floats.subspan(lists.first + tile * lists.stride, 2 * lists.k);
  return {both.first(lists.k), both.subspan(lists.k)};
}

// Lists may come from a file: what is no place in the tile is left out.
template <class T>
void add_entry(float position, float value, T& to) {
  if (position >= 0.0f && position < static_cast<float>(to.size())) {
    to[static_cast<std::size_t>(position)] += value;
  }
}

void choose(const Extract& how, Floats residual, const List& taken, Chosen& chosen) {
  std::array<std::uint16_t, kArea> positions;
  const std::size_t count = top_k(residual, static_cast<std::size_t>(how.k), positions.data());
  chosen.counts.push_back(static_cast<std::uint16_t>(count));
  for (std::size_t pick = 0; pick < count; ++pick) {
    const std::uint16_t position = positions[pick];
    const float value = residual[position];
    const float share = how.subtract * value;
    residual[position] = value - share;
    chosen.positions.push_back(position);
    chosen.values.push_back(value);
    taken.positions[pick] = position;
    taken.values[pick] = share;
  }
  if (count < taken.values.size()) taken.values[count] = 0.0f;
}

struct OfTile {
  std::span<const std::uint16_t> positions;
  std::span<const std::int32_t> weights;
  ConstFloats values;
  bool votes = false;
};
OfTile of_tile(const Said& said, std::size_t tile) {
  const std::size_t begin = said.begin[tile];
  const std::size_t count = said.begin[tile + 1] - begin;
  OfTile result;
  result.positions = said.positions.subspan(begin, count);
  result.votes = said.values.empty();
  if (result.votes) {
    result.weights = said.weights.subspan(begin, count);
  } else {
    result.values = said.values.subspan(begin, count);
  }
  return result;
}

double sum_of_squares(const Tile& tile, ConstFloats z) {
  double sum = 0.0;
  for_each_row(tile, [&](std::size_t row, std::size_t cols) {
    sum += sum_squares(z.subspan(tile.offset + row * tile.stride, cols));
  });
  return sum;
}

void check_said(Tiles tiles, const Said& said) {
  TW_CHECK(said.begin.size() == tiles.size() + 1);
  TW_CHECK(said.begin.back() <= said.positions.size());
  TW_CHECK(said.positions.size() == std::max(said.weights.size(), said.values.size()));
}

void check_device(Floats a, Floats b) { TW_CHECK(a.device() == b.device()); }

}  // namespace

void extract(Tiles tiles, ConstFloats values, std::size_t origin, const Extract& how,
             Floats residual, const Lists& taken, Chosen& chosen) {
  TW_CHECK(how.k >= 1 && static_cast<std::size_t>(how.k) <= taken.k);
  check_device(residual, taken.floats);
  TW_CHECK(values.device() == residual.device());
  if (!residual.on_host()) {
    return device_kernels()->extract(tiles, values, origin, how, residual, taken, chosen);
  }
  chosen.counts.reserve(chosen.counts.size() + tiles.size());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Floats of_residual = coefficients(tiles[i], residual);
    fold(from_origin(tiles[i], origin), values, how.decay, how.scale, of_residual, how.basis);
    choose(how, of_residual, list_of(taken, i), chosen);
  }
}

namespace {

void move(const Along& how, ConstFloats z, Floats x) {
  if (how.sign) {
    sign_step(x, how.keep, how.rate, z);
  } else {
    scale_add(x, how.keep, z, -how.rate);
  }
}

}  // namespace

// Rows of tiles are inverted into a buffer with the same places, and then moved along at once.
void step_along(Tiles tiles, const Said& said, const Along& how, std::size_t origin, Floats x) {
  check_said(tiles, said);
  if (!x.on_host()) return device_kernels()->step_along(tiles, said, how, origin, x);
  std::vector<float> z;
  for (std::size_t first = 0, next; first < tiles.size(); first = next) {
    next = end_of_row(tiles, first);
    const std::size_t begin = tiles[first].offset;
    const Floats of_x = x.subspan(begin - origin, end_of(tiles[next - 1]) - begin);
    z.resize(std::max(z.size(), of_x.size()));
    const Floats of_z = Floats(z).first(of_x.size());
    for (std::size_t i = first; i < next; ++i) {
      const Tile tile = from_origin(tiles[i], begin);
      const OfTile heard = of_tile(said, i);
      if (heard.votes) {
        inverse_votes(tile, heard.positions, heard.weights, of_z, how.basis);
      } else {
        inverse_sparse(tile, {heard.positions, heard.values}, of_z, how.basis);
      }
    }
    if (next - first > 1 || tiles[first].cols == tiles[first].stride) {
      move(how, of_z, of_x);
      continue;
    }
    for_each_row(tiles[first], [&](std::size_t row, std::size_t cols) {
      const std::size_t at = row * tiles[first].stride;
      move(how, of_z.subspan(at, cols), of_x.subspan(at, cols));
    });
  }
}

double inverse_said(Tiles tiles, const Said& said, Basis basis, std::size_t origin, Floats z) {
  check_said(tiles, said);
  if (!z.on_host()) return device_kernels()->inverse_said(tiles, said, basis, origin, z);
  double sum = 0.0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const Tile tile = from_origin(tiles[i], origin);
    const OfTile heard = of_tile(said, i);
    if (heard.votes) {
      sum += static_cast<double>(
          inverse_votes_amplitude(tile, heard.positions, heard.weights, z, basis));
    } else {
      inverse_sparse(tile, {heard.positions, heard.values}, z, basis);
      sum += sum_of_squares(tile, z);
    }
  }
  return sum;
}

double inverse_owed(Tiles tiles, ConstFloats residual, std::span<const Lists> lists, Basis basis,
                    std::size_t origin, Floats z) {
  TW_CHECK(residual.device() == z.device());
  if (!z.on_host()) return device_kernels()->inverse_owed(tiles, residual, lists, basis, origin, z);
  std::array<float, kArea> owed;
  double sum = 0.0;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const ConstFloats of_tile = coefficients(tiles[i], residual);
    const Floats all = Floats(owed).first(of_tile.size());
    std::copy(of_tile.begin(), of_tile.end(), all.begin());
    for (const Lists& one : lists) {
      const List said = list_of(one, i);
      for (std::size_t pick = 0; pick < one.k && said.values[pick] != 0.0f; ++pick) {
        add_entry(said.positions[pick], said.values[pick], all);
      }
    }
    const Tile tile = from_origin(tiles[i], origin);
    inverse_fast(tile, all, z, basis);
    sum += sum_of_squares(tile, z);
  }
  return sum;
}

void give_back(Tiles tiles, const Lists& lists, std::span<const std::uint16_t> counts,
               Floats residual) {
  TW_CHECK(counts.size() == tiles.size());
  check_device(residual, lists.floats);
  if (!residual.on_host()) return device_kernels()->give_back(tiles, lists, counts, residual);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    Floats of_tile = coefficients(tiles[i], residual);
    const List owed = list_of(lists, i);
    for (std::size_t pick = 0; pick < std::min<std::size_t>(counts[i], lists.k); ++pick) {
      add_entry(owed.positions[pick], owed.values[pick], of_tile);
    }
  }
}

void clear(Tiles tiles, const Lists& lists) {
  if (!lists.floats.on_host()) return device_kernels()->clear(tiles, lists);
  for (std::size_t i = 0; i < tiles.size(); ++i) list_of(lists, i).values[0] = 0.0f;
}

}  // namespace thinwire::kernels
