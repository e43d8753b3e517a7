// A few bits for a value: how methods that say less than a float say it. A scale belongs to all
// values that a tile says at a time; a code means the same on every machine, hosts and devices
// (integer work on the bits of floats, single roundings, no libm). Whole tiles: coarse_kernels.h.
#pragma once

#include <cstdint>
#include <span>

#ifdef __CUDACC__
#define THINWIRE_ON_BOTH __host__ __device__
#else
#define THINWIRE_ON_BOTH
#endif

namespace thinwire {

// plain:    the float itself, without a scale
// sign:     1 bit, scale = mean magnitude
// two_bit:  2 bits, 0.75 or 1.5 of the mean magnitude, with a sign
// e3m0:     4 bits, 0 or 2^-6 .. 1 of the largest magnitude, with a sign (FP4 E3M0)
enum class Coarse { plain, sign, two_bit, e3m0 };

inline int code_bits(Coarse coarse) {
  constexpr int bits[] = {32, 1, 2, 4};
  return bits[static_cast<int>(coarse)];
}

namespace coarse_bits {

THINWIRE_ON_BOTH inline std::uint32_t of(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
THINWIRE_ON_BOTH inline float from(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
THINWIRE_ON_BOTH inline float size(float value) { return from(of(value) & 0x7fffffffu); }

}  // namespace coarse_bits

// Magnitudes are summed in double, in the order of the values.                         [replicated]
inline float scale_of(Coarse coarse, std::span<const float> values) {
  double sum = 0.0;
  float most = 0.0f;
  for (const float value : values) {
    const float size = coarse_bits::size(value);
    sum += size;
    if (most < size) most = size;
  }
  if (coarse == Coarse::e3m0) return most;
  return values.empty() ? 0.0f : static_cast<float>(sum / static_cast<double>(values.size()));
}

// |value| / scale in powers of two: 0 for nothing, 7 for 1, one less for each half; to the nearest,
// upwards from the middle.
THINWIRE_ON_BOTH inline std::uint32_t e3m0_magnitude(float ratio) {
  const std::uint32_t bits = coarse_bits::of(ratio);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127;
  if (exponent == -7) return 1;  // the middle between 0 and 2^-6 is a power of two itself
  const bool up = (bits & 0x7fffffu) >= 0x400000u;  // from 1.5 times a power of two on
  const int magnitude = exponent + (up ? 1 : 0) + 7;
  return static_cast<std::uint32_t>(magnitude < 0 ? 0 : magnitude > 7 ? 7 : magnitude);
}

THINWIRE_ON_BOTH inline std::uint32_t encode(Coarse coarse, float value, float scale) {
  const std::uint32_t bits = coarse_bits::of(value);
  const std::uint32_t minus = bits >> 31;
  const float size = coarse_bits::size(value);
  switch (coarse) {
    case Coarse::plain:
      return bits;
    case Coarse::sign:
      return minus;
    case Coarse::two_bit:
      return minus | (size > 1.125f * scale ? 2u : 0u);
    case Coarse::e3m0:
      return minus | (scale > 0.0f ? e3m0_magnitude(size / scale) : 0u) << 1;
  }
  return 0;
}

THINWIRE_ON_BOTH inline float decode(Coarse coarse, std::uint32_t code, float scale) {
  const float sign = (code & 1u) == 0 ? 1.0f : -1.0f;
  switch (coarse) {
    case Coarse::plain:
      return coarse_bits::from(code);
    case Coarse::sign:
      return sign * scale;
    case Coarse::two_bit:
      return sign * ((code & 2u) == 0 ? 0.75f : 1.5f) * scale;
    case Coarse::e3m0: {
      const std::uint32_t magnitude = code >> 1 & 7u;
      if (magnitude == 0) return 0.0f;
      return sign * scale * coarse_bits::from((120u + magnitude) << 23);  // 2^(magnitude - 7)
    }
  }
  return 0.0f;
}

}  // namespace thinwire
