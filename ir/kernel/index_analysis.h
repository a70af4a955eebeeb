// SPDX-License-Identifier: Apache-2.0
// Range analysis of a kernel's integers: the interval of each, and whether different invocations access the same
// element. ir/kernel/index_forms.h says how it works.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/module.h"

namespace tg {

namespace indexing {
class Forms;
class Bounds;
}  // namespace indexing

/// What is known of the integers of a verified kernel whose calls are inlined. `shapes` (one for each parameter, in
/// order) gives the open extents; without it they are unknown but at least 1, and so is a grid that depends on them.
/// The kernel must outlive the analysis and must not change.
///
/// Every launch is assumed to have buffer extents below 2^31 and fewer than 2^31 invocations along an axis. Where the
/// grid or an extent is unknown, `lanePrivate` also assumes that it is small enough for no index to wrap around (with
/// `shapes` it assumes nothing of the kind). Answers hold for executions whose accesses stay in range. u32 and i32
/// arithmetic wraps; it is taken as exact only where the intervals prove that it does not wrap.
class IndexAnalysis {
 public:
  struct Interval {
    int64_t lo = 0, hi = 0;  ///< inclusive
    bool operator==(const Interval&) const = default;
  };

  explicit IndexAnalysis(const Item& kernel, const std::vector<Shape>* shapes = nullptr);
  ~IndexAnalysis();
  IndexAnalysis(IndexAnalysis&&) noexcept;
  IndexAnalysis& operator=(IndexAnalysis&&) noexcept;

  /// The values that a u32 or i32 scalar takes where it is defined, in all invocations and iterations; the whole
  /// range of its type when nothing is known. A literal gives its own value. The guards around the definition (`if %i
  /// < %n`) narrow the interval.
  Interval range(const Operand& operand) const;
  /// The same at the op `at`: the guards around `at` narrow the interval too.
  Interval range(const Operand& operand, const Op& at) const;
  /// The most iterations of a tgk.for in any invocation; nullopt when they depend on an open extent, an unknown grid
  /// or loaded data.
  std::optional<int64_t> tripCount(const Op& loop) const;

  /// Whether no element of the buffer is accessed by two different invocations through these accesses, which are all
  /// of one buffer. Compares the invocations of the whole dispatch, or of one workgroup if the buffer is `shared`.
  /// True is proven; false means unknown.
  bool lanePrivate(const std::vector<const Op*>& accesses) const;
  /// Whether two executions of these stores (all to one buffer) certainly write the same element, whatever the data:
  /// a witness is searched among the first, middle and last invocations and iterations. Two executions by one
  /// invocation count too. Compares the executions of the whole dispatch, of one workgroup for `shared` and of one
  /// invocation for `local` buffers.
  bool certainlyRepeats(const std::vector<const Op*>& stores) const;
  /// Whether these loads of a shared or local buffer read only elements that these stores wrote since their block was
  /// entered, by any invocation of the workgroup. The stores must be done before the loads, and all must stand in the
  /// block. True is proven; false means unknown.
  bool covered(const std::vector<const Op*>& stores, const std::vector<const Op*>& loads,
               const Block& block) const;
  /// Whether every index of the access is within its axis whenever the access is executed. True is proven.
  bool inRange(const Op& access) const;
  /// The same if the access stood at `at`, where its indices must be in scope: only the guards around `at` count.
  bool inRange(const Op& access, const Op& at) const;

 private:
  std::unique_ptr<indexing::Forms> forms_;
  std::unique_ptr<indexing::Bounds> bounds_;
};

}  // namespace tg
