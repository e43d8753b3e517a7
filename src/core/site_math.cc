#include "src/core/site_math.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "thinwire/hash.h"
#include "thinwire/range_kernels.h"

namespace thinwire {

// The words travel as pairs of floats that no one does arithmetic on.
std::vector<std::uint64_t> words_of_all(const std::vector<std::uint64_t>& mine, Collective& near) {
  if (near.size() == 1 || mine.empty()) return mine;
  static_assert(sizeof(std::uint64_t) == 2 * sizeof(float));
  const std::size_t length = 2 * mine.size();
  std::vector<float> sent(length);
  std::memcpy(sent.data(), mine.data(), length * sizeof(float));
  std::vector<float> heard(length * near.size());
  std::vector<std::size_t> cuts;
  for (int rank = 0; rank <= near.size(); ++rank) cuts.push_back(length * rank);
  near.all_gather(sent, heard, cuts);
  std::vector<std::uint64_t> all(mine.size() * near.size());
  std::memcpy(all.data(), heard.data(), heard.size() * sizeof(float));
  return all;
}

namespace {

// Every rank fills in the words of its own tile rows and leaves 0 elsewhere; all get all of them.
void share_words(std::vector<std::uint64_t>& words, Collective& near) {
  if (near.size() == 1 || words.empty()) return;
  const std::vector<std::uint64_t> all = words_of_all(words, near);
  for (std::size_t i = 0; i < all.size(); ++i) words[i % words.size()] |= all[i];
}

std::uint64_t fold(const std::vector<std::uint64_t>& hashes) {
  std::uint64_t hash = 0;
  for (std::uint64_t one : hashes) hash = hash_fold(hash, one);
  return hash;
}

}  // namespace

double site_norm(const Shard& shard, ConstFloats values, Collective& near) {
  std::vector<std::uint64_t> sums(shard.layout().tile_rows().size(), 0);
  std::vector<ShardRange> ranges;
  for (std::size_t i = 0; i < sums.size(); ++i) ranges.push_back(shard.range(i));
  std::vector<double> squares(ranges.size());
  kernels::sum_squares(values, ranges, squares);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = std::bit_cast<std::uint64_t>(squares[i]);
  share_words(sums, near);
  double sum = 0.0;
  for (std::uint64_t bits : sums) sum += std::bit_cast<double>(bits);
  return std::sqrt(sum);
}

std::uint64_t site_hash(const Shard& shard, Collective& near) {
  std::vector<std::uint64_t> hashes = row_hashes(shard);
  share_words(hashes, near);
  return fold(hashes);
}

std::uint64_t shard_hash(const Shard& shard) { return fold(row_hashes(shard)); }

}  // namespace thinwire
