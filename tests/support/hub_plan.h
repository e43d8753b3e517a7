// What the sites of a simulated run do, and what must come of it.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random.h"
#include "transports/hub_records_internal.h"

namespace thinwire::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(mix(seed)) {}
  std::uint64_t next() { return mix(seed_ ^ ++count_); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

struct RunPlan {
  int sites = 3;
  std::uint32_t parts = 1;
  std::uint64_t steps = 20;
  std::uint64_t delay = 0;   // rounds in flight beside the one of this step
  std::uint32_t phases = 1;  // those after the first are exchanged without delay
  hub::Kind kind = hub::Kind::gather;
  double compute_min_s = 0.1;
  double compute_max_s = 0.3;
  double peer_timeout_s = 10.0;
};

struct SiteOptions {
  std::string name;
  std::string run = "run";
  std::uint64_t process = 0;
  std::uint64_t agreement = 7;
  std::string agreed = "lr = 0.1\nmodel = gpt\n";
  std::string key{};
  double slower = 1.0;  // its compute time
};

using PartFrames = std::vector<std::pair<int, Bytes>>;  // site, frame

struct Result {
  hub::Key key;
  std::vector<std::uint32_t> absent;
  std::vector<PartFrames> frames;  // by part, all that took part
};

// What a site says in a round can be told from what any other says.
inline Bytes frame_of(const RunPlan& plan, int site, const hub::Key& key, std::uint32_t part) {
  const std::uint64_t seed = mix(key.number * 977 + key.phase * 31 + part) + std::uint64_t(site);
  const std::size_t floats = plan.kind == hub::Kind::reduce ? 5 : 1 + mix(seed) % 4;
  const std::vector<float> values = noise_vector(seed, floats);
  Bytes bytes(floats * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::vector<PartFrames> expected_frames(const RunPlan& plan, const hub::Key& key,
                                               const std::vector<std::uint32_t>& absent) {
  std::vector<PartFrames> parts(plan.parts);
  for (std::uint32_t part = 0; part < plan.parts; ++part) {
    for (int site = 0; site < plan.sites; ++site) {
      if (std::count(absent.begin(), absent.end(), static_cast<std::uint32_t>(site))) continue;
      parts[part].emplace_back(site, frame_of(plan, site, key, part));
    }
    if (plan.kind == hub::Kind::gather || parts[part].empty()) continue;
    std::vector<float> sum(5), term(5);
    std::memcpy(sum.data(), parts[part][0].second.data(), 20);
    for (std::size_t i = 1; i < parts[part].size(); ++i) {
      std::memcpy(term.data(), parts[part][i].second.data(), 20);
      for (int j = 0; j < 5; ++j) sum[j] += term[j];
    }
    for (float& value : sum) value /= static_cast<float>(parts[part].size());
    Bytes mean(20);
    std::memcpy(mean.data(), sum.data(), 20);
    parts[part] = {{0, mean}};
  }
  return parts;
}

}  // namespace thinwire::test
