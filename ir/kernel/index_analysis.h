// SPDX-License-Identifier: Apache-2.0
// What the indices of a kernel can be: intervals of its integers, and which invocations meet in an element.
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

/// What is known of the integers of a verified kernel whose calls are inlined. `shapes` (one for each
/// parameter, in order) settles open extents; without it they, and a grid that depends on them, are unknown,
/// but at least 1. The kernel must outlive the analysis and stay as it is.
///
/// Assumed of every launch: extents of buffers are below 2^31, and so is the number of invocations along an
/// axis; and where the grid or an extent is unknown, `lanePrivate` takes it to be small enough
/// that no index wraps around because of it (with `shapes` nothing of the kind is assumed). Answers hold for
/// executions whose accesses stay in range; u32 and i32 arithmetic wraps, and is taken as exact only where
/// the intervals show that it does not.
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

  /// The values a u32 or i32 scalar takes where it is defined, in all invocations and iterations; the whole
  /// range of its type when nothing is known. A literal is itself. Guards (`if %i < %n`) around count.
  Interval range(const Operand& operand) const;
  /// The same where `at` stands: the guards around `at` count too.
  Interval range(const Operand& operand, const Op& at) const;
  /// The most iterations of a tgk.for in any invocation; nullopt when an open extent, an unknown grid or
  /// loaded data decide.
  std::optional<int64_t> tripCount(const Op& loop) const;

  /// Whether no element of the buffer is touched by two different invocations through these accesses (all
  /// of one buffer), of the whole dispatch, or of one workgroup if the buffer is `shared`. A proof: false
  /// means unknown.
  bool lanePrivate(const std::vector<const Op*>& accesses) const;
  /// Whether two executions of these stores (all to one buffer) certainly touch one element, whatever the
  /// data: a witness is found among the first and last invocations and iterations. Each execution counts,
  /// also two by one invocation; of one workgroup for `shared`, of one invocation for `local` buffers.
  bool certainlyRepeats(const std::vector<const Op*>& stores) const;
  /// Whether these loads of a shared or local buffer find only elements that these stores wrote since their
  /// block was entered, by whichever invocation of the workgroup; the stores are done before the loads, and
  /// all stand in the block. A proof.
  bool covered(const std::vector<const Op*>& stores, const std::vector<const Op*>& loads,
               const Block& block) const;
  /// Whether every index of the access is within its axis whenever it is executed. A proof.
  bool inRange(const Op& access) const;
  /// The same if the access stood where `at` stands, where its indices must be in scope: only the guards
  /// around `at` count.
  bool inRange(const Op& access, const Op& at) const;

 private:
  std::unique_ptr<indexing::Forms> forms_;
  std::unique_ptr<indexing::Bounds> bounds_;
};

}  // namespace tg
