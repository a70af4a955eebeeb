// SPDX-License-Identifier: Apache-2.0
// sink-maps: moves a map that a kernel computes beside other results into the kernels that read it. For example, the mask
// for the gradient of an activation is formed in the activation's kernel, because it reads the activation. There it would be
// stored, and it is as large as the activation, which is stored anyway.
//
//   before:  %h, %m = tg.fused (…) { … tg.relu; tg.greater; tg.yield %h, %m }
//            %d = tg.fused (%m = %m, …) { … tg.select %m, …; tg.yield %d }
//   after:   %h = tg.fused (…) { … tg.relu; tg.yield %h }
//            %d = tg.fused (%h = %h, …) { … tg.greater %h, …; tg.select …; tg.yield %d }
//
// A map whose value is stored only to be added up is computed by the kernel of the sum, such as the product of a gradient and
// an activation, both of which are stored. A few cheap ops are also moved into several readers, if each then reads no more
// bytes than before. In a batch norm that is x - mean, which the kernel of the variance would store; its readers compute it
// from x, in 16 bits perhaps.
//
// Requires: stage(fused).
// Ensures: the order of kernels stays; none binds more than the target allows, or takes maps beyond the size of code
//   that the target wants; no more bytes are kept alive than the map's result has: its operands are stored anyway, or
//   are no larger.
// Where: behind form-regions, before rematerialize, which counts live bytes.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "codegen/schedule.h"
#include "ir/schedule.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/kernel_edits.h"
#include "passes/fuse/slice.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

class Sinker {
 public:
  Sinker(Item& func, const Target& target) : target_(target), ops_(func.body.ops.all()) {
    for (const Op* op : ops_) place_.emplace(op, static_cast<int>(place_.size()));
  }
  void run();

 private:
  bool saves(const Slice& slice, const std::unordered_map<const Value*, Value*>& outside, const Op& reader,
             const Value& value, bool shared) const;
  void sink(Op& from, int slot);
  int64_t& sizeOfKernel(const Op& fused);

  const Target& target_;
  const std::vector<Op*> ops_;  ///< of the function, in order
  std::unordered_map<const Op*, int> place_;
  std::unordered_map<const Op*, int64_t> sizes_;  ///< of kernels' code, once it was asked for
};

/// Whether a slice is so cheap that several kernels may compute it: casts, constants, and a few ops of one instruction.
bool isCheap(const Slice& slice) {
  int count = 0;
  for (const Op* op : slice.ops) {
    if (op->info().has(table::leaf) || op->code == Opcode::cast) continue;
    if (!isCheapMap(*op) || ++count > kMostOpsSunk) return false;
  }
  return true;
}

/// Whether a kernel's loops are over elements or rows, so that its own arithmetic hides behind its loads.
bool isBoundByLoads(const Op& op) {
  const Schedule schedule = scheduleOf(op);
  return std::holds_alternative<MapSchedule>(schedule) || std::holds_alternative<RowSchedule>(schedule);
}

/// Whether the reader can bind the leaves of the slice, and their prolonged live ranges cost no more bytes than the value
/// has. A leaf that is read there or later anyway costs nothing, nor do small ones, such as the means of channels. If several
/// kernels read the value (`shared`), or a product as a factor, the reader must also read no more bytes of the leaves than of
/// the value; if it adds the elements, no more than it takes to store and read the value.
bool Sinker::saves(const Slice& slice, const std::unordered_map<const Value*, Value*>& outside,
                   const Op& reader, const Value& value, bool shared) const {
  int64_t prolonged = 0, read = 0;
  Bindings bound(target_, reader, value);
  const int place = place_.at(&reader);
  for (const Value* leaf : slice.leaves) {
    const Value* source = outside.at(leaf);
    bound.read(*source);
    bool fixed = !source->def || source->def->code != Opcode::fused;
    bool kept = fixed || std::ranges::any_of(source->uses,
                                             [&](const Use& use) { return place_.at(use.user()) >= place; });
    if (kSmallLeaf * source->type.bytes() <= value.type.bytes()) continue;
    if (!kept) prolonged += source->type.bytes();
    if (!argFor(reader, *source)) read += source->type.bytes();
  }
  if (shared && (!isCheap(slice) || !isBoundByLoads(reader))) return false;
  const Value& arg = *argFor(reader, value);
  const bool sums =
      std::ranges::any_of(arg.uses, [](const Use& use) { return use.user()->code == Opcode::sum; });
  const bool often = shared || isFactor(arg);
  if ((often || sums) && read > (often ? 1 : 2) * value.type.bytes()) return false;
  return bound.fit() && prolonged <= value.type.bytes();
}

/// The size of a reader's code.
int64_t& Sinker::sizeOfKernel(const Op& fused) {
  const auto [size, isNew] = sizes_.try_emplace(&fused);
  if (isNew) size->second = sizeOfMaps(fused);
  return size->second;
}

/// Moves the map that computes a result into all kernels that read it, if that saves bytes.
void Sinker::sink(Op& fused, int slot) {
  const Value& value = *fused.result(slot);
  std::vector<Op*> readers;
  for (const Use& use : value.uses) addOnce(readers, use.user());
  const std::unordered_map<const Value*, Value*> outside = outsideOf(fused);
  const Value* inner = fused.regions[0]->terminator()->in(slot);
  auto stands = [&](const Value& source) { return &source != &value; };
  auto allows = [&](const Op& op) {
    return (op.info().has(table::leaf) && op.info().mayStand(table::inRegion)) || isElementwise(op);
  };
  std::optional<Slice> slice = sliceTo(fused, inner, outside, stands, allows);
  if (!slice || slice->ops.empty() || readers.empty()) return;
  const int64_t size = sizeOfMaps(slice->ops);
  const bool takeIt = std::ranges::all_of(readers, [&](const Op* reader) {
    const Value* arg = argFor(*reader, value);
    return arg && readsByElement(*reader, *arg) &&
           saves(*slice, outside, *reader, value, readers.size() > 1) &&
           sizeOfKernel(*reader) + size <= target_.kernelOps;
  });
  if (!takeIt) return;
  for (Op* reader : readers) {
    computeArg(*reader, argFor(*reader, value), fused, *slice, inner, target_);
    sizeOfKernel(*reader) += size;
  }
  dropResult(fused, slot, target_);
}

void Sinker::run() {
  for (auto op = ops_.rbegin(); op != ops_.rend(); ++op) {
    if (!isPlain(**op)) continue;
    for (int slot = static_cast<int>((*op)->results.size()) - 1; slot >= 0; --slot) {
      if ((*op)->results.size() > 1) sink(**op, slot);
    }
  }
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_sink_maps(Module& module, const NoOptions&, const PassContext&) {
  return fuse::rewriteFunctions<fuse::Sinker>(module, targetOf(module.attrs));
}
