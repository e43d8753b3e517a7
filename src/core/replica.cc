#include "src/core/replica.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

std::vector<Floats> replicated(Shard& shard) {
  std::vector<Floats> all{shard.params()};
  for (const StateSpec& spec : shard.states()) {
    if (spec.kind == StateKind::replicated) all.push_back(shard.state(spec.name));
  }
  return all;
}

std::size_t bytes_of(const std::vector<Floats>& all) {
  std::size_t bytes = 0;
  for (const Floats floats : all) bytes += floats.size_bytes();
  return bytes;
}

}  // namespace

Bytes pack_replica(const Shard& shard) {
  const std::vector<Floats> all = replicated(const_cast<Shard&>(shard));  // read alone
  Bytes bytes;
  bytes.reserve(bytes_of(all) + 2 * sizeof(std::uint64_t));  // the trainer adds two words
  for (const Floats floats : all) {
    const Near here(floats, Device());
    const ByteView part = std::as_bytes(ConstFloats(here));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

void unpack_replica(ByteView bytes, Shard& shard) {
  const std::vector<Floats> all = replicated(shard);
  if (bytes.size() != bytes_of(all)) {
    throw Error("the run's state has " + std::to_string(bytes.size()) + " bytes for this rank, " +
                std::to_string(bytes_of(all)) +
                " are expected; give all sites the same model and optimizer");
  }
  for (const Floats floats : all) {
    copy_bytes(bytes.first(floats.size_bytes()), floats);
    bytes = bytes.subspan(floats.size_bytes());
  }
  for (const StateSpec& spec : shard.states()) {
    if (spec.kind == StateKind::own) zero(shard.state(spec.name));
  }
  zero(shard.grad());
}

}  // namespace thinwire
