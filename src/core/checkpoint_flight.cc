#include "src/core/checkpoint_flight.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/codec/codec.h"

namespace thinwire {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "flight/";

std::vector<std::uint32_t> tile_coefficients(const std::vector<PartRow>& rows) {
  std::vector<std::uint32_t> sizes;
  for (const PartRow& row : rows)
    sizes.insert(sizes.end(), row.tiles, static_cast<std::uint32_t>(row.tile_size));
  return sizes;
}

// Floats go through text as their bits.
json about(const InFlight& one) {
  return {{"step", one.step.index},
          {"round", one.step.round},
          {"speaks", one.step.speaks},
          {"lr", std::bit_cast<std::uint32_t>(one.step.lr)},
          {"age", one.step.age},
          {"sites", one.step.sites},
          {"state_hash", hex(one.state_hash)}};
}

InFlight from_about(const json& said) {
  InFlight one;
  one.step.index = said.at("step");
  one.step.round = said.value("round", one.step.index);
  one.step.speaks = said.value("speaks", true);
  one.step.lr = std::bit_cast<float>(said.at("lr").get<std::uint32_t>());
  one.step.age = said.at("age");
  one.step.sites = said.at("sites");
  const Result<std::uint64_t> hash = from_hex(said.at("state_hash"));
  if (!hash) throw Error(hash.why());
  one.state_hash = *hash;
  return one;
}

// Where the picks of each tile begin.
struct Starts {
  std::vector<std::size_t> picks{0};
  std::vector<std::size_t> scales{0};
  explicit Starts(const Picks& update) {
    for (const std::uint16_t count : update.counts) {
      picks.push_back(picks.back() + count);
      scales.push_back(scales.back() + (count > 0 ? 1 : 0));
    }
  }
};

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from, std::size_t begin, std::size_t end) {
  if (from.empty()) return;
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
            from.begin() + static_cast<std::ptrdiff_t>(end));
}

// What the rank says of one row of tiles, behind what is in `to` already.
void append_row(Update& to, const Update& from, const Starts& starts, const PartRow& row) {
  append(to.dense, from.dense, row.offset, row.offset + row.floats);
  const Picks& picks = from.picks;
  if (picks.counts.empty()) {
    to.picks.counts.insert(to.picks.counts.end(), row.tiles, std::uint16_t{0});
    return;
  }
  to.picks.value_bits = picks.value_bits;
  const std::size_t end = row.first_tile + row.tiles;
  append(to.picks.counts, picks.counts, row.first_tile, end);
  append(to.picks.positions, picks.positions, starts.picks[row.first_tile], starts.picks[end]);
  append(to.picks.codes, picks.codes, starts.picks[row.first_tile], starts.picks[end]);
  append(to.picks.scales, picks.scales, starts.scales[row.first_tile], starts.scales[end]);
}

}  // namespace

std::string guard_text(const LossGuard::Usual& usual) {
  return json{{"seen", usual.seen}, {"mean", usual.mean}, {"deviation", usual.deviation}}.dump();
}

LossGuard::Usual guard_from(const TensorFile& file) {
  const auto said = file.metadata().find(kGuardName);
  if (said == file.metadata().end()) return {};
  const json usual = json::parse(said->second, nullptr, false);
  try {
    return {usual.at("seen"), usual.at("mean"), usual.at("deviation")};
  } catch (const json::exception&) {
    return {};
  }
}

std::vector<SavedFlight> save_flights(const Layout& layout, PartOf part,
                                      const std::vector<InFlight>& in_flight) {
  const std::vector<PartRow> rows = part_rows(layout, part);
  const std::vector<std::uint32_t> tiles = tile_coefficients(rows);
  std::vector<SavedFlight> saved;
  for (const InFlight& one : in_flight) {
    saved.push_back({std::string(kPrefix) + std::to_string(one.step.index), about(one).dump(),
                     encode(one.update, {part_floats(layout, part), tiles})});
  }
  return saved;
}

Result<std::vector<InFlight>> load_flights(const Layout& layout, PartOf part,
                                           const TensorFile& file) {
  using Flights = Result<std::vector<InFlight>>;
  const std::vector<PartRow> rows = part_rows(layout, part);
  const std::vector<std::uint32_t> tiles = tile_coefficients(rows);
  std::vector<InFlight> flights;
  for (const TensorFile::Entry& entry : file.entries()) {
    if (!entry.name.starts_with(kPrefix)) continue;
    const auto said = file.metadata().find(entry.name);
    const json about =
        json::parse(said == file.metadata().end() ? "" : said->second, nullptr, false);
    const std::string where = file.path().filename().string() + ": " + entry.name + ": ";
    try {
      InFlight one = from_about(about);
      Bytes bytes(entry.bytes);
      file.read(entry, 0, bytes);
      Result<Update> update = decode(bytes, {part_floats(layout, part), tiles});
      if (!update) return Flights::refuse(where + update.why());
      one.update = std::move(*update);
      flights.push_back(std::move(one));
    } catch (const std::exception& error) {
      return Flights::refuse(where + error.what());
    }
  }
  std::sort(flights.begin(), flights.end(),
            [](const InFlight& a, const InFlight& b) { return a.step.index < b.step.index; });
  return flights;
}

Update recut(const Layout& layout, const std::vector<const Update*>& by_rank, PartOf saved,
             PartOf part) {
  const int ranks = static_cast<int>(by_rank.size());
  std::vector<std::pair<int, PartRow>> home(layout.tile_rows().size());  // of each row of tiles
  std::vector<Starts> starts;
  for (int rank = 0; rank < ranks; ++rank) {
    starts.emplace_back(by_rank[static_cast<std::size_t>(rank)]->picks);
    for (const PartRow& row : part_rows(layout, {rank, ranks, saved.whole_blocks}))
      home[row.row] = {rank, row};
  }
  Update update;
  for (const PartRow& mine : part_rows(layout, part)) {
    const auto& [rank, row] = home[mine.row];
    append_row(update, *by_rank[static_cast<std::size_t>(rank)],
               starts[static_cast<std::size_t>(rank)], row);
  }
  if (update.picks.positions.empty()) update.picks = {};
  return update;
}

}  // namespace thinwire
