#include "src/core/repair.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "src/core/rows.h"
#include "thinwire/log.h"

namespace thinwire {
namespace {

Bytes hashes_of(const Shard& shard) {
  const std::vector<std::uint64_t> hashes = row_hashes(shard);
  Bytes bytes(hashes.size() * sizeof hashes[0]);
  if (!bytes.empty()) std::memcpy(bytes.data(), hashes.data(), bytes.size());
  return bytes;
}

// Rows of which some of the sites that differ have another hash than this shard.
std::vector<std::size_t> rows_that_differ(const std::vector<SiteFrame>& words, const Heard& heard,
                                          const Shard& shard) {
  const Bytes mine = hashes_of(shard);
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < mine.size() / sizeof(std::uint64_t); ++row) {
    const std::size_t at = row * sizeof(std::uint64_t);
    const bool differs = std::ranges::any_of(words, [&](const SiteFrame& word) {
      return std::ranges::count(heard.diverged, word.site) > 0 &&
             word.bytes.size() == mine.size() &&
             std::memcmp(word.bytes.data() + at, mine.data() + at, sizeof(std::uint64_t)) != 0;
    });
    if (differs) rows.push_back(row);
  }
  return rows;
}

}  // namespace

bool repair_replica(const Step& step, int site, const Heard& heard, Sync& sync, Shard& shard) {
  const bool sick = std::ranges::count(heard.diverged, site) > 0;
  const std::vector<SiteFrame> hashes =
      sync.tell(step, kHashesPhase, sick ? hashes_of(shard) : Bytes{});
  Bytes answer;
  if (site == heard.of_most) {
    const std::vector<std::size_t> rows = rows_that_differ(hashes, heard, shard);
    answer = pack_rows(shard, rows);
    if (!rows.empty()) {
      const TileRow& first = shard.layout().tile_rows()[rows[0]];
      log_warn("step " + std::to_string(step.index) + ": gives " + std::to_string(rows.size()) +
               " rows of tiles to a site whose replica differs, first in " +
               shard.layout().blocks()[first.block].name);
    }
  }
  for (const SiteFrame& word : sync.tell(step, kRowsPhase, std::move(answer))) {
    if (!sick || word.site != heard.of_most) continue;
    const Result<std::string> changed = unpack_rows(word.bytes, shard);
    const std::string when = "step " + std::to_string(step.index) + ": ";
    if (!changed) {
      log_warn(when + "the replica of this site is not mended: " + changed.why());
      return false;
    }
    if (word.bytes.empty()) {  // rounding has eaten the difference
      log_warn(when + "the replica of this site differed from that of most, and agrees again");
      return false;
    }
    log_warn(when + "the replica of this site differed from that of most, first in " +
             (changed->empty() ? "an optimizer state" : *changed) + "; mended with " +
             std::to_string(word.bytes.size()) + " bytes from site " + std::to_string(word.site));
    return true;
  }
  return false;
}

}  // namespace thinwire
