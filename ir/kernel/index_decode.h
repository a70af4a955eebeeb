// SPDX-License-Identifier: Apache-2.0
// Which invocation accesses an element, decoded from the indices. Private to ir/kernel/index_*.cpp.
#pragma once

#include <set>
#include <vector>

#include "ir/kernel/element.h"
#include "ir/kernel/index_forms.h"

namespace tg::indexing {

/// Given that two executions, each of one of these accesses, access the same element: finds the symbols that must
/// have the same value in both. If these include the ids of the invocation in all axes, no two invocations share an
/// element.
class Decoder {
 public:
  Decoder(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& accesses);

  /// Assumes that both invocations are in one workgroup.
  void sameGroup();
  /// Finds all symbols that are equal in both executions, until nothing changes.
  void run();
  /// Whether the symbol has the same value in both executions.
  bool known(int symbol) const;
  /// Whether both executions are of the same invocation.
  bool invocationKnown() const;

 private:
  /// One form for each access; the values in both executions are equal mod 2^32.
  using Equation = std::vector<Affine>;
  Affine settled(const Affine& form) const;
  bool decodes(const Equation& equation, int symbol) const;
  bool windowed(const Equation& rest, int64_t width, int64_t period) const;
  void zeros();

  const Forms& forms_;
  const Bounds& bounds_;
  std::vector<int> scopes_;  ///< the scope of each access
  std::vector<Equation> equations_;
  std::set<int> known_;
};

/// Whether two executions of these stores to one buffer certainly write the same element.
bool foundTwice(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores);

/// Whether every element that the loads read in a block was stored by one of the stores since the block was entered,
/// given that the stores are done before the loads. All are of one buffer and stand in the block.
bool covered(const Forms& forms, const Bounds& bounds, const std::vector<const Op*>& stores,
             const std::vector<const Op*>& loads, const Block& block);

}  // namespace tg::indexing
