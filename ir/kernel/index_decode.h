// SPDX-License-Identifier: Apache-2.0
// Whether equal indices mean equal invocations. Private to ir/kernel/index_*.cpp.
#pragma once

#include <set>
#include <vector>

#include "ir/kernel/element.h"
#include "ir/kernel/index_forms.h"

namespace tg::indexing {

/// Two executions, each of any of some accesses, that touch one element: which symbols have one value in
/// both?
class Decoder {
 public:
  Decoder(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& accesses);

  /// Takes it as given that the invocations are in one workgroup.
  void sameGroup();
  /// Draws every conclusion.
  void run();
  bool known(int symbol) const;
  /// Whether the invocation is known in all its axes.
  bool invocationKnown() const;

 private:
  /// The values of forms, one for each access, are equal mod 2^32.
  using Equation = std::vector<Affine>;
  Affine settled(const Affine& form) const;
  bool decodes(const Equation& equation, int symbol) const;
  bool windowed(const Equation& rest, int64_t width, int64_t period) const;
  void zeros();

  const Forms& forms_;
  const Bounds& bounds_;
  std::vector<int> scopes_;  ///< of the accesses
  std::vector<Equation> equations_;
  std::set<int> known_;
};

/// Whether two executions of these stores to one buffer certainly touch one element.
bool foundTwice(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores);

/// Whether each element that one of the loads finds in a block was stored by one of the stores since the
/// block was entered, given that the stores are done before the loads. All are of one buffer and stand in the
/// block.
bool covered(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores,
             const std::vector<const Op*>& loads, const Block& block);

}  // namespace tg::indexing
