// SPDX-License-Identifier: Apache-2.0
// Affine forms over symbols, such as 4 + 16·a + b. The symbols and their meaning are in ir/kernel/index_forms.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tg::indexing {

/// For bounds of forms: the product of a 32-bit coefficient and a 32-bit symbol does not fit 64 bits with its sign.
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
  /// A text that is equal for equal forms, and different for others.
  std::string key() const;
};

/// a + factor · b. The result must fit 64 bits: callers keep coefficients and factors below 2^31, or check with
/// `small` first.
Affine sum(const Affine& a, const Affine& b, int64_t factor = 1);
inline Affine operator+(const Affine& a, const Affine& b) { return sum(a, b); }
inline Affine operator-(const Affine& a, const Affine& b) { return sum(a, b, -1); }
inline Affine operator-(const Affine& a) { return sum({}, a, -1); }

/// Whether all numbers of a form are below 2^42, so that a sum with a factor below 2^20 fits 64 bits.
bool small(const Affine& form);

/// The same value mod 2^32, with the constant and all coefficients in [-2^31, 2^31).
Affine wrapped(const Affine& form);

}  // namespace tg::indexing
