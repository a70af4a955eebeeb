// SPDX-License-Identifier: Apache-2.0
// Shuffling without a list of what is shuffled.
#pragma once

#include <array>
#include <cstdint>

namespace tg {

/// A permutation of 0 … size - 1 in constant memory, a pure function of (seed, round, stream): a Feistel
/// network over the next power of 4 whose values outside the range are walked on from (M. Luby, C. Rackoff,
/// "How to construct pseudorandom permutations", 1988; J. Black, P. Rogaway, "Ciphers with arbitrary finite
/// domains", 2002).
class Permutation {
 public:
  /// `stream` keeps uses of one seed apart. `size` is 1 … 2^62.
  Permutation(uint64_t size, uint64_t seed, uint64_t round, uint32_t stream);
  /// Where `index`, below the size, goes.
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t once(uint64_t value) const;

  uint64_t size_;
  int halfBits_ = 1;
  std::array<uint64_t, 8> keys_;
};

}  // namespace tg
