// SPDX-License-Identifier: Apache-2.0
// Shuffles a range of any size in constant memory.
#pragma once

#include <array>
#include <cstdint>

namespace tg {

/// A permutation of 0 … size - 1 in constant memory, a pure function of (seed, round, stream). It is a Feistel network
/// over the next power of 4; a result outside of the range is mapped again until it lies inside (cycle walking). See M.
/// Luby, C. Rackoff, "How to construct pseudorandom permutations", 1988; J. Black, P. Rogaway, "Ciphers with arbitrary
/// finite domains", 2002.
class Permutation {
 public:
  /// `stream` makes permutations for different uses of a seed independent. `size` is 1 … 2^62.
  Permutation(uint64_t size, uint64_t seed, uint64_t round, uint32_t stream);
  /// The image of `index`, which must be less than the size.
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t once(uint64_t value) const;

  uint64_t size_;
  int halfBits_ = 1;
  std::array<uint64_t, 8> keys_;
};

}  // namespace tg
