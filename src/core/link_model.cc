#include "thinwire/link_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {
namespace {

constexpr double kLossMax = 0.5;
// Above this many expected losses the exact draw gives way to the normal approximation.
constexpr double kExactLossesMax = 500.0;

std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// base^exponent by multiplications alone: the same bits on every machine, unlike pow.
double whole_power(double base, std::uint64_t exponent) {
  double power = 1.0;
  for (; exponent; exponent >>= 1, base *= base) {
    if (exponent & 1) power *= base;
  }
  return power;
}

// A number followed by one of the units, in which it is scaled; nothing for anything else.
struct Unit {
  std::string_view name;
  double scale;
};

template <std::size_t kUnits>
std::optional<double> quantity(std::string_view text, const std::array<Unit, kUnits>& units) {
  double value = 0.0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  std::string_view rest = text.substr(static_cast<std::size_t>(stop - text.data()));
  for (const Unit& unit : units) {
    if (rest == unit.name) return value * unit.scale;
  }
  return std::nullopt;
}

constexpr std::array<Unit, 3> kRates{{{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}}};
constexpr std::array<Unit, 3> kTimes{{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}}};
constexpr std::array<Unit, 1> kShares{{{"%", 0.01}}};

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    std::size_t end = text.find(mark, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// Six digits at most, no trailing zeros.
std::string short_number(double value) {
  char buffer[64];
  auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general, 6);
  TW_CHECK(error == std::errc());
  return std::string(buffer, end);
}

std::string rate_text(double bytes_s) {
  double bits = bytes_s * 8;
  if (bits >= 1e9) return short_number(bits / 1e9) + " Gbit/s";
  if (bits >= 1e6) return short_number(bits / 1e6) + " Mbit/s";
  return short_number(bits / 1e3) + " kbit/s";
}

}  // namespace

void LinkOptions::validate() const {
  auto demand = [](bool good, const char* rule) {
    if (!good) throw UsageError(std::string("link: ") + rule);
  };
  demand(std::isfinite(rate) && rate > 0, "the rate must be above 0");
  demand(std::isfinite(delay) && delay >= 0, "the round trip must not be negative");
  demand(loss >= 0 && loss <= kLossMax, "the loss must be from 0% to 50%");
  demand(std::isfinite(jitter) && jitter >= 0, "the jitter must not be negative");
}

LinkOptions parse_link(std::string_view text) {
  std::vector<std::string_view> parts = split(text, ',');
  std::optional<double> loss = 0.0, jitter = 0.0;
  std::optional<double> rate = quantity(parts[0], kRates);
  std::optional<double> round_trip =
      parts.size() > 1 ? quantity(parts[1], kTimes) : std::optional<double>();
  if (parts.size() > 2) loss = quantity(parts[2], kShares);
  if (parts.size() > 3) jitter = quantity(parts[3], kTimes);
  if (!rate || !round_trip || !loss || !jitter || parts.size() > 4) {
    throw UsageError(
        "link: write it as RATE,ROUND_TRIP[,LOSS[,JITTER]], for instance 100mbit,50ms " +
        std::string("or 1gbit,20ms,0.1%,5ms; got '") + std::string(text) + "'");
  }
  LinkOptions options{.rate = *rate, .delay = *round_trip / 2, .loss = *loss, .jitter = *jitter};
  options.validate();
  return options;
}

std::string to_string(const LinkOptions& options) {
  std::string text = rate_text(options.rate);
  text += ", " + short_number(options.delay * 2e3) + " ms round trip, ";
  text += options.loss > 0 ? short_number(options.loss * 100) + "% loss" : "no loss";
  if (options.jitter > 0) text += ", " + short_number(options.jitter * 1e3) + " ms jitter";
  return text;
}

LinkModel::LinkModel(LinkOptions options, std::uint64_t seed) : options_(options), state_(seed) {
  options_.validate();
}

double LinkModel::uniform() { return static_cast<double>(split_mix(state_) >> 11) * 0x1p-53; }

// Binomial(packets, loss). Up to kExactLossesMax expected losses by inversion of its distribution,
// P(k+1) = P(k) (n-k)/(k+1) p/(1-p); beyond by a normal of equal mean and variance, itself the sum
// of twelve uniforms. Only basic arithmetic and the square root, which IEEE 754 rounds exactly.
double LinkModel::lost_of(double packets) {
  const double p = options_.loss;
  if (p == 0.0 || packets == 0.0) return 0.0;
  if (packets * p > kExactLossesMax) {
    double normal = -6.0;
    for (int i = 0; i < 12; ++i) normal += uniform();
    double drawn = packets * p + normal * std::sqrt(packets * p * (1 - p));
    return std::clamp(std::floor(drawn + 0.5), 0.0, packets);
  }
  double chance = whole_power(1 - p, static_cast<std::uint64_t>(packets));
  double left = uniform();
  double lost = 0.0;
  while (left >= chance && lost < packets && chance > 0.0) {
    left -= chance;
    chance *= (packets - lost) / (lost + 1) * p / (1 - p);
    ++lost;
  }
  return lost;
}

double LinkModel::arrival(double now, double bytes) {
  double left_at = std::max(now, free_at_) + bytes / options_.rate;
  double line_busy_until = left_at;
  double lost = lost_of(std::ceil(bytes / kPacketBytes));
  while (lost > 0.0) {
    double resend_s = std::min(lost * kPacketBytes, bytes) / options_.rate;
    left_at += 2 * options_.delay + resend_s;
    line_busy_until += resend_s;
    lost = lost_of(lost);
  }
  free_at_ = line_busy_until;
  double arrived = left_at + options_.delay + uniform() * options_.jitter;
  last_arrival_ = std::max(last_arrival_, arrived);
  return last_arrival_;
}

}  // namespace thinwire
