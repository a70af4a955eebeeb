// SPDX-License-Identifier: Apache-2.0
// Whether a kernel keeps within the buffers that its target lets it bind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Counts what a kernel binds. Each value read is one buffer, however often it is read: a texel view where
/// the target reads by texels and the value fits one, else a storage buffer. Results and groups are storage
/// buffers. plan may put a result into the bytes of a value that is read, which then is read as storage: each result
/// may cost a view. The one limit is the target's `bindings`; views have Vulkan's least.
class Bindings {
 public:
  explicit Bindings(const Target& target) : target_(target) {}
  void read(const Value& value);
  /// Results, or groups.
  void write(size_t count) { written_ += count; }

  /// Whether one kernel can bind all, in which some values may be read both by element and by vector: those
  /// have two buffers.
  bool fit() const;
  /// Whether one kernel can bind all, each value once: joins, maps over groups, a composite alone.
  bool fitOnce() const;
  /// Whether more can only be too many: lets a caller stop early.
  bool exceeded() const { return read_.size() + written_ > kMostBuffers; }

 private:
  size_t storage() const { return read_.size() - views_ + written_ + std::min(views_, written_); }

  /// Views that every device has (Vulkan's least maxPerStageDescriptorSampledImages).
  static constexpr size_t kTexelViews = 16;
  /// Those, and the 8 storage buffers of the least device: a kernel that binds more fits few devices, and is
  /// bound by what it reads.
  static constexpr size_t kMostBuffers = kTexelViews + 8;
  /// Buffers for values that are read both by element and by vector: a row's tensor and its gradient.
  static constexpr size_t kReadTwice = 2;

  const Target& target_;
  std::vector<const Value*> read_;  ///< distinct
  size_t views_ = 0;                ///< of them
  size_t written_ = 0;
};

}  // namespace tg::fuse
