// SPDX-License-Identifier: Apache-2.0
// Whether a kernel keeps within the buffers that its target lets it bind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace tg::fuse {

/// Counts the buffers that a kernel binds. Each value that is read counts once, however often it is read: as a texel view
/// if the target reads through texel views and the value fits one, else as a storage buffer. Results and groups are
/// storage buffers. plan may place a result in the bytes of a value that is read; that value is then read as storage, so
/// each result may cost one view. The target's `bindings` limits storage buffers; views are limited by the number that
/// every Vulkan device has.
class Bindings {
 public:
  explicit Bindings(const Target& target) : target_(target) {}
  /// Those of a kernel, except for reading `without`.
  Bindings(const Target& target, const Op& fused, const Value& without);
  void read(const Value& value);
  /// Adds results or groups.
  void write(size_t count) { written_ += count; }

  /// Whether one kernel can bind everything, allowing for values that are read both by element and by vector, which
  /// need two buffers.
  bool fit() const;
  /// Whether one kernel can bind everything, each value once: joins, maps over groups, a composite by itself.
  bool fitOnce() const;
  /// Whether there are already too many buffers for any target: lets a caller stop early.
  bool exceeded() const { return read_.size() + written_ > kMostBuffers; }

 private:
  size_t storage() const { return read_.size() - views_ + written_ + std::min(views_, written_); }

  /// Views that every device has (Vulkan's least maxPerStageDescriptorSampledImages).
  static constexpr size_t kTexelViews = 16;
  /// The views plus the 8 storage buffers of the smallest device. A kernel that binds more fits few devices, and its time
  /// goes into reading.
  static constexpr size_t kMostBuffers = kTexelViews + 8;
  /// Extra buffers for values that are read both by element and by vector: a row's tensor and its gradient.
  static constexpr size_t kReadTwice = 2;

  const Target& target_;
  std::vector<const Value*> read_;  ///< distinct
  size_t views_ = 0;                ///< of them
  size_t written_ = 0;
};

}  // namespace tg::fuse
