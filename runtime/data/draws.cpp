// SPDX-License-Identifier: Apache-2.0
// Loops without branches and calls, which compilers vectorize. The build compiles this file with the flags that this
// needs.
#include "runtime/data/draws.h"

#include <bit>
#include <cmath>
#include <numbers>

// Compiles a loop once for each vector width. The loader chooses one when the program starts.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TG_VECTOR_WIDTHS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TG_VECTOR_WIDTHS
#endif

namespace tg {

TG_VECTOR_WIDTHS
void drawWords(const DrawKey& key, uint64_t element, DrawnWords& out) {
  const PhiloxKey words = key.key;
  const std::array<uint32_t, 2> high = key.high;
  for (int i = 0; i < kDrawBlock; ++i) {
    const uint64_t at = element + static_cast<uint64_t>(i);
    const auto drawn = philox({lowWord(at), highWord(at), high[0], high[1]}, words);
    out.first[i] = drawn[0];
    out.second[i] = drawn[1];
  }
}

// log u, for u = m / 2^24: write m = f * 2^e with f near 1, and use log f = 2 atanh((f - 1) / (f + 1)). The cosine at a
// fraction t of a turn: -cos(2 pi t) = sin(2 pi (1/4 - |t - 1/2|)), with both signs changed. Both series end where the
// terms are below 2^-46.
TG_VECTOR_WIDTHS
void boundNormals(const DrawnWords& words, double deviation, double spread, NormalBounds& out) {
  constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCD;  // bits of sqrt(1/2)
  constexpr double kBias = 0x1p52;                    // its last bits hold a small integer
  for (int i = 0; i < kDrawBlock; ++i) {
    const double m = static_cast<double>(static_cast<int32_t>(words.first[i] >> 8)) + 1.0;
    const auto bits = std::bit_cast<uint64_t>(m);
    const uint64_t power = (bits - kSqrtHalf) >> 52;
    const auto f = std::bit_cast<double>(bits - (power << 52));
    const double e = std::bit_cast<double>(power | std::bit_cast<uint64_t>(kBias)) - kBias - 24.0;
    const double s = (f - 1.0) / (f + 1.0), z = s * s;
    double p = 1.0 / 19;
    for (const double n : {17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0}) p = p * z + 1.0 / n;
    const double log = e * std::numbers::ln2 + 2 * (s + s * z * p);
    const double radius = deviation * std::sqrt(-2.0 * log);

    const double t = static_cast<double>(static_cast<int32_t>(words.second[i] >> 8)) * 0x1p-24;
    const double y = (std::fabs(t - 0.5) - 0.25) * (2 * std::numbers::pi), q = y * y;
    double c = 1.0;  // the sine's series: each term is the one before times -q / (n (n - 1))
    for (const double n : {19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0})
      c = 1.0 - c * q * (1 / (n * (n - 1)));
    const double value = radius * (y * c), away = radius * spread;
    out.low[i] = static_cast<float>(value - away);
    out.high[i] = static_cast<float>(value + away);
  }
}

}  // namespace tg
