// SPDX-License-Identifier: Apache-2.0
// Affine forms over symbols, the terms of ir/kernel/index_analysis.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tg::indexing {

/// Bounds of forms: coefficients of 32 bits times symbols of 32 bits do not fit 64.
__extension__ using Wide = __int128;

constexpr int64_t kWrap = int64_t{1} << 32;

/// constant + Σ coefficient · symbol, over the integers. Symbols are numbers of indexing::Forms.
struct Affine {
  int64_t constant = 0;
  std::map<int, int64_t> terms;  ///< no coefficient is 0

  static Affine of(int64_t constant) { return {constant, {}}; }
  static Affine symbol(int id) { return {0, {{id, 1}}}; }
  bool isConstant() const { return terms.empty(); }
  int64_t coefficient(int symbol) const {
    auto found = terms.find(symbol);
    return found == terms.end() ? 0 : found->second;
  }
  bool operator==(const Affine&) const = default;
  /// Text that two forms share if they are equal.
  std::string key() const;
};

/// a + factor · b. No result may leave 64 bits: callers keep coefficients and factors below 2^31, or
/// check with `small` first.
Affine sum(const Affine& a, const Affine& b, int64_t factor = 1);
inline Affine operator+(const Affine& a, const Affine& b) { return sum(a, b); }
inline Affine operator-(const Affine& a, const Affine& b) { return sum(a, b, -1); }
inline Affine operator-(const Affine& a) { return sum({}, a, -1); }

/// Whether all numbers of a form are below 2^42, so that a sum with a factor below 2^20 fits.
bool small(const Affine& form);

/// The same value mod 2^32, with all numbers in [-2^31, 2^31).
Affine wrapped(const Affine& form);

}  // namespace tg::indexing
