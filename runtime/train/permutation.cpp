// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/permutation.h"

#include <cassert>

#include "ir/philox.h"

namespace tg {

namespace {

/// Every bit of the result depends on every bit of the argument (the finalizer of MurmurHash3).
uint64_t mixed(uint64_t bits) {
  bits = (bits ^ bits >> 33) * 0xFF51AFD7ED558CCDu;
  bits = (bits ^ bits >> 33) * 0xC4CEB9FE1A85EC53u;
  return bits ^ bits >> 33;
}

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t seed, uint64_t round, uint32_t stream) : size_(size) {
  assert(size >= 1 && size <= uint64_t{1} << 62);
  while (uint64_t{1} << 2 * halfBits_ < size) ++halfBits_;
  for (uint32_t pair = 0; pair < keys_.size() / 2; ++pair) {
    const auto words =
        philox({pair, lowWord(round), highWord(round), stream}, {lowWord(seed), highWord(seed)});
    keys_[2 * pair] = uint64_t{words[1]} << 32 | words[0];
    keys_[2 * pair + 1] = uint64_t{words[3]} << 32 | words[2];
  }
}

uint64_t Permutation::once(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << halfBits_) - 1;
  uint64_t left = value >> halfBits_, right = value & mask;
  for (const uint64_t key : keys_) {
    const uint64_t next = left ^ (mixed(right + key) & mask);
    left = right;
    right = next;
  }
  return left << halfBits_ | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  // The range is over a quarter of the domain, so this needs at most four iterations on average.
  do index = once(index);
  while (index >= size_);
  return index;
}

}  // namespace tg
