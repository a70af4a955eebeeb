// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/affine.h"

#include <fmt/format.h>

#include <cstdlib>

namespace tg::indexing {

std::string Affine::key() const {
  std::string text = fmt::format("{}", constant);
  for (const auto& [symbol, factor] : terms) text += fmt::format("{:+}s{}", factor, symbol);
  return text;
}

Affine sum(const Affine& a, const Affine& b, int64_t factor) {
  Affine out = a;
  out.constant += factor * b.constant;
  for (const auto& [symbol, coefficient] : b.terms)
    if ((out.terms[symbol] += factor * coefficient) == 0) out.terms.erase(symbol);
  return out;
}

bool small(const Affine& form) {
  constexpr int64_t kSmall = int64_t{1} << 42;
  bool fits = std::abs(form.constant) < kSmall;
  for (const auto& [symbol, factor] : form.terms) fits = fits && std::abs(factor) < kSmall;
  return fits;
}

static int64_t wrappedNumber(int64_t number) { return static_cast<int32_t>(static_cast<uint32_t>(number)); }

Affine wrapped(const Affine& form) {
  Affine out = Affine::of(wrappedNumber(form.constant));
  for (const auto& [symbol, factor] : form.terms)
    if (int64_t number = wrappedNumber(factor)) out.terms[symbol] = number;
  return out;
}

}  // namespace tg::indexing
