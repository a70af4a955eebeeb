// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/shared_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/kernel/element.h"
#include "ir/kernel/semantics.h"

namespace tg {
namespace {

/// Whether the workgroup synchronizes inside an op's bodies: after their last access to the buffer if kBehind, else
/// before their first.
template <bool kBehind>
bool synchronizesInside(const Op& op, const Value* buffer) {
  auto synchronizesIn = [&](auto at, auto end) {
    for (; at != end; ++at) {
      if (synchronizes(**at)) return true;
      if (touches(**at, buffer)) return synchronizesInside<kBehind>(**at, buffer);
    }
    return true;  // this body does not access the buffer
  };
  return !op.regions.empty() && std::ranges::all_of(op.regions, [&](const auto& region) {
    const auto& ops = region->ops;
    return kBehind ? synchronizesIn(ops.rbegin(), ops.rend()) : synchronizesIn(ops.begin(), ops.end());
  });
}

/// A shared buffer of the kernel's body, and the positions there of the first and last op that access it: its live
/// range.
struct Range {
  Value* buffer;
  size_t first, last;
};

class Overlap {
  /// Merges buffers whose live ranges a barrier separates: each buffer, by first access, takes the first earlier one
  /// that fits.
 public:
  explicit Overlap(Item& kernel) : kernel_(kernel), ops_(kernel.body.ops.all()) {}
  void run();

 private:
  std::optional<Range> rangeOf(Value* buffer) const;
  bool apart(const Range& earlier, const Range& later) const;

  Item& kernel_;
  std::vector<Op*> ops_;  ///< ops of the kernel's body by position
};

std::optional<Range> Overlap::rangeOf(Value* buffer) const {
  std::optional<Range> out;
  for (size_t at = 0; at < ops_.size(); ++at) {
    if (!touches(*ops_[at], buffer)) continue;
    if (!out) out = Range{buffer, at, at};
    out->last = at;
  }
  return out;
}

bool Overlap::apart(const Range& earlier, const Range& later) const {
  if (earlier.last >= later.first) return false;
  auto begin = ops_.begin() + static_cast<std::ptrdiff_t>(earlier.last) + 1;
  auto end = ops_.begin() + static_cast<std::ptrdiff_t>(later.first);
  return std::any_of(begin, end, [](const auto& op) { return synchronizes(*op); }) ||
         synchronizesInside<true>(*ops_[earlier.last], earlier.buffer) ||
         synchronizesInside<false>(*ops_[later.first], later.buffer);
}

/// The shape that is large enough for both, if one of the two is.
std::optional<Shape> shapeOfBoth(const Type& a, const Type& b) {
  if (a.dtype != b.dtype || a.lanes != b.lanes || a.shape.rank() != b.shape.rank()) return {};
  bool first = true, second = true;
  for (int axis = 0; axis < a.shape.rank(); ++axis) {
    first = first && a.shape[axis] >= b.shape[axis];
    second = second && b.shape[axis] >= a.shape[axis];
  }
  if (!first && !second) return {};
  return first ? a.shape : b.shape;
}

void Overlap::run() {
  std::vector<Range> ranges, kept;
  for (const Op* op : ops_) {
    if (op->code != Opcode::k_shared) continue;
    if (std::optional<Range> range = rangeOf(op->result())) ranges.push_back(*range);
  }
  std::ranges::stable_sort(ranges, {}, &Range::first);
  for (const Range& range : ranges) {
    auto earlier = std::ranges::find_if(kept, [&](const Range& each) {
      return shapeOfBoth(each.buffer->type, range.buffer->type) && apart(each, range);
    });
    if (earlier == kept.end()) {
      kept.push_back(range);
      continue;
    }
    earlier->buffer->type.shape = *shapeOfBoth(earlier->buffer->type, range.buffer->type);
    earlier->last = range.last;
    range.buffer->uses.replaceAll(earlier->buffer);
    kernel_.body.ops.erase(range.buffer->def);
  }
}

int64_t bytesMadeBy(Opcode code, const Item& kernel) {
  int64_t bytes = 0;
  walk(kernel.body, [&](const Op& op) {
    if (op.code == code) bytes += op.result()->type.bytes();
  });
  return bytes;
}

}  // namespace

int64_t sharedBytes(const Item& kernel) {
  return bytesMadeBy(Opcode::k_shared, kernel) + reductionBytes(kernel);
}

int64_t reductionBytes(const Item& kernel) {
  std::vector<Type> reduced;
  walk(kernel.body, [&](const Op& op) {
    if (op.code != Opcode::k_workgroup_reduce) return;
    const Type& type = op.result()->type;
    addOnce(reduced, type);
  });
  int64_t bytes = 0;
  for (const Type& type : reduced) bytes += type.bytes();
  return bytes * kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2];
}

int64_t localBytes(const Item& kernel) { return bytesMadeBy(Opcode::k_local, kernel); }

void overlapSharedBuffers(Item& kernel) {
  // A buffer whose extent tgk.dim reads must keep it, and one that holds the rows of a matrix its row length.
  const bool fixed = anyOp(kernel.body, [](const Op& op) {
    return isCoopmatOp(op.code) || (op.code == Opcode::k_dim && op.in(0)->type.mode == BufMode::shared);
  });
  if (!fixed) Overlap(kernel).run();
}

}  // namespace tg
