// SPDX-License-Identifier: Apache-2.0
// exact-sums: makes sums by atomics independent of the order of a kernel's invocations. Every f32 buffer with a
// tgk.atomic_add then holds exact sums: kExactWords words of i32 for each element. Loads, stores and additions of the
// buffer become those of exact sums. Around the tg.custom, generated kernels split the operand of an inout into words and
// round results to f32.
//
//   before:  %g = tg.custom @k(%i, %x) : tensor<8xf32>            // %g accum, atomic_add
//   after:   %g_sums = tg.custom @k(%i, %x) : tensor<8x11xi32>
//            %g = tg.custom @exact_round1(%g_sums) : tensor<8xf32>
//
// Requires: stage(tensor) with a target; the words must keep its limits.
// Ensures: equal calls give equal results, in whatever order the device runs invocations. Where a sum cannot be rewritten
//   it keeps its atomics, and a remark says why: the value before an addition is used, other atomics touch the buffer, its
//   rank is already the highest, shared memory or a binding would exceed the target. deterministic=false disables the
//   pass.
// Where: behind the gradient passes, whose kernels have most of these sums; before any pass that counts bindings.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "codegen/schedule.h"
#include "ir/builder.h"
#include "ir/kernel/custom.h"
#include "ir/kernel/element.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/shared_memory.h"
#include "ir/needs.h"
#include "ir/parser.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

/// The buffer of which an op reads or writes an element, or null.
Value* bufferOf(const Op& op) {
  const Operand* element = elementOf(op);
  return element ? element->value : nullptr;
}

/// The type of a buffer with the words of exact sums on a new last axis.
Type withWords(Type type) {
  type.dtype = DType::i32;
  if (type.rank() == 0) type.shape.push(1);
  type.shape.push(kExactWords);
  return type;
}

/// How the ops of a kernel use one f32 buffer.
struct Uses {
  Value* buffer = nullptr;
  bool sums = false;    ///< whether there is an f32 atomic_add
  std::string problem;  ///< why its sums cannot become exact; empty if they can
  Loc loc;              ///< of the first addition, or of the problem
};

/// Collects how a kernel uses a buffer, with the first reason why its sums cannot become exact.
Uses usesOf(const Item& kernel, Value* buffer) {
  Uses uses{buffer, false, {}, {}};
  walk(kernel.body, [&](Op& op) {
    if (bufferOf(op) != buffer) return;
    bool plain = op.code == Opcode::k_load || op.code == Opcode::k_store || op.code == Opcode::k_accumulate;
    if (op.code == Opcode::k_atomic_add) {
      if (!uses.sums) uses.loc = op.loc;
      uses.sums = true;
      if (op.results.empty()) return;
    } else if (plain) {
      return;
    }
    if (!uses.problem.empty()) return;
    uses.problem = op.code == Opcode::k_atomic_add ? "the value before the addition is used"
                                                   : fmt::format("{} touches it too", op.info().name);
    uses.loc = op.loc;
  });
  if (uses.problem.empty() && buffer->type.rank() == kMaxRank)
    uses.problem = "its rank is the highest there is";
  return uses;
}

bool isF32Sum(const Type& type) { return type.dtype == DType::f32 && type.lanes == 1; }

/// The f32 buffers of a kernel to which invocations add atomically: parameters and shared memory.
std::vector<Uses> summedBuffers(const Item& kernel) {
  std::vector<Uses> found;
  auto look = [&](Value* buffer) {
    if (!isF32Sum(buffer->type)) return;
    Uses uses = usesOf(kernel, buffer);
    if (uses.sums) found.push_back(std::move(uses));
  };
  for (const auto& arg : kernel.body.args) look(arg.get());
  walk(kernel.body, [&](Op& op) {
    if (op.code == Opcode::k_shared) look(op.result());
  });
  return found;
}

Opcode exactForm(Opcode code) {
  switch (code) {
  case Opcode::k_load: return Opcode::k_exact_load;
  case Opcode::k_store: return Opcode::k_exact_store;
  default: return Opcode::k_exact_add;
  }
}

/// Turns a block's accesses to the given buffers into those of exact sums.
void rewriteAccesses(Block& block, const std::unordered_set<const Value*>& buffers) {
  for (Op* op : block.ops) {
    for (auto& region : op->regions) rewriteAccesses(*region, buffers);
    if (buffers.contains(bufferOf(*op))) op->code = exactForm(op->code);
  }
}

/// Generated kernels that convert between f32 and the words of exact sums, one for each direction and rank.
class Conversions {
 public:
  Conversions(Module& module, const Target& target)
      : module_(module), group_(std::min<int64_t>(64, largestGroup(target))) {}

  /// The name of the kernel that rounds sums to f32, or splits f32 into words; generated on first use.
  std::string name(bool round, int rank) {
    std::string& name = names_[{round, rank}];
    if (!name.empty()) return name;
    auto parsed =
        parse(text(fmt::format("exact_{}{}", round ? "round" : "split", rank), round, rank), "exact sums");
    assert(parsed && "a generated kernel does not parse");
    auto kernel = std::move((*parsed)->items.take()[0]);
    kernel->loc = module_.loc;
    return name = placeKernel(module_, std::move(kernel)).name;
  }

 private:
  /// The text of such a kernel. One invocation handles one element; its number is decomposed into indices.
  std::string text(const std::string& name, bool round, int rank) const {
    std::string open, count = "dim(%x, 0)", body, indices;
    for (int axis = 0; axis < rank; ++axis) open += "?x";
    for (int axis = 1; axis < rank; ++axis) count = fmt::format("mul({}, dim(%x, {}))", count, axis);
    std::string total = "%d0";
    for (int axis = 0; axis < rank; ++axis) {
      body += fmt::format("%d{} = tgk.dim %x, {} : u32\n", axis, axis);
      if (axis == 0) continue;
      body += fmt::format("%n{} = tgk.mul {}, %d{} : u32\n", axis, total, axis);
      total = fmt::format("%n{}", axis);
    }
    // Where more workgroups are needed than every device has along x, they continue along y.
    body += "%gx = tgk.workgroup_id 0 : u32\n%gy = tgk.workgroup_id 1 : u32\n%l = tgk.local_id 0 : u32\n"
            "%nx = tgk.num_workgroups 0 : u32\n%row = tgk.mul %gy, %nx : u32\n%g = tgk.add %row, %gx : u32\n";
    body += fmt::format("%at = tgk.mul %g, {} : u32\n%i = tgk.add %at, %l : u32\n", group_);
    body += fmt::format("%in = tgk.lt %i, {} : bool\ntgk.if %in {{\n", total);
    std::string rest = "%i";
    for (int axis = rank - 1; axis >= 0; --axis) {
      std::string index = rest;
      if (axis > 0) {
        index = fmt::format("%i{}", axis);
        body += fmt::format("{} = tgk.mod {}, %d{} : u32\n%r{} = tgk.div {}, %d{} : u32\n", index, rest, axis,
                            axis, rest, axis);
        rest = fmt::format("%r{}", axis);
      }
      indices = index + (indices.empty() ? "" : ", ") + indices;
    }
    std::string plain = fmt::format("buf<{}f32, ", open),
                words = fmt::format("buf<{}{}xi32, ", open, kExactWords);
    body += fmt::format("%v = tgk.{} %x[{}] : f32\ntgk.{} %v, %y[{}]\n}}\n", round ? "exact_load" : "load",
                        indices, round ? "store" : "exact_store", indices);
    return fmt::format("module @exact {{\nkernel @{1}(%x: {2}in>, %y: {3}out>) workgroup({5}) "
                       "grid(min(ceildiv({0}, {5}), 65535), ceildiv({0}, {6})) {{\n{4}}}\n}}\n",
                       count, name, round ? words : plain, round ? plain : words, body, group_,
                       group_ * 65535);
  }

  Module& module_;
  int64_t group_;  ///< invocations of a workgroup
  std::map<std::pair<bool, int>, std::string> names_;
};

/// For each parameter of a kernel: whether it holds words now.
using Exact = std::vector<bool>;

class SumRewriter {
 public:
  SumRewriter(Module& module, const Target& target, const PassContext& context)
      : module_(module), target_(target), context_(context), conversions_(module, target) {}

  void run() {
    for (const Item* func : module_.all(ItemKind::func))
      for (Op* op : func->body.ops)
        if (op->code == Opcode::custom) measure(*op);
    for (Item* func : module_.all(ItemKind::func)) {
      bool any = false;
      for (Op* op : func->body.ops)
        if (op->code == Opcode::custom) any = rewritten(*op) || any;
      if (any) rewriteCalls(*func);
    }
  }

 private:
  /// Records the most elements that any call gives each parameter of a kernel.
  void measure(const Op& custom) {
    const Item& kernel = *customKernel(custom, module_);
    std::vector<Shape> shapes = boundShapes(custom, kernel);
    for (size_t index = 0; index < shapes.size(); ++index) {
      int64_t& most = elements_[kernel.body.args[index].get()];
      most = std::max(most, shapes[index].elements());
    }
  }

  /// Why exact sums in a buffer would exceed the target, or "". `shared` is the number of bytes of shared memory so far; the
  /// bytes of the buffer's words are added to it.
  std::string excess(const Value& buffer, int64_t& shared) const {
    if (buffer.type.mode != BufMode::shared) {
      int64_t bytes = elements_.at(&buffer) * kExactWords * byteSize(DType::i32);
      if (gives(target_, LimitId::storageRange, bytes)) return "";
      return fmt::format(
          "exact sums would take {} bytes, more than the {} one binding may span on target '{}'", bytes,
          target_.storageRange, target_.name);
    }
    int64_t bytes = shared + buffer.type.bytes() * (kExactWords - 1);
    if (!gives(target_, LimitId::sharedBytes, bytes))
      return fmt::format("exact sums would take {} bytes of shared memory, more than the {} of target '{}'",
                         bytes, target_.sharedBytes, target_.name);
    shared = bytes;
    return "";
  }

  /// Whether the kernel of a tg.custom holds exact sums; the first call for a kernel rewrites it.
  bool rewritten(const Op& custom) {
    Item* kernel = module_.find(ItemKind::kernel, custom.operands[0].text);
    auto [entry, fresh] = exact_.try_emplace(kernel);
    if (fresh) entry->second = rewriteKernel(*kernel);
    return contains(entry->second, true);
  }

  /// Remarks why a sum stays as it is.
  void keep(const Item& kernel, const Uses& uses, const std::string& why) const {
    context_.remark(uses.loc, "the sum in %{} of @{} depends on the order of the device: {}",
                    uses.buffer->name, kernel.name, why);
  }

  Exact rewriteKernel(Item& kernel) {
    std::unordered_set<const Value*> chosen;
    int64_t shared = sharedBytes(kernel);
    for (const Uses& uses : summedBuffers(kernel)) {
      std::string why = uses.problem.empty() ? excess(*uses.buffer, shared) : uses.problem;
      if (!why.empty()) {
        keep(kernel, uses, why);
        continue;
      }
      chosen.insert(uses.buffer);
      uses.buffer->type = withWords(uses.buffer->type);
    }
    rewriteAccesses(kernel.body, chosen);
    if (!chosen.empty()) dropGradientsOf(kernel);
    Exact exact;
    for (const auto& arg : kernel.body.args) exact.push_back(chosen.contains(arg.get()));
    return exact;
  }

  /// Removes the gradients registered for this kernel, and this kernel as the gradient of another: its parameters no longer
  /// match. All gradients have been built already, so nothing needs them.
  void dropGradientsOf(Item& kernel) {
    for (Item* each : module_.all(ItemKind::kernel)) {
      const Attr* vjp = find(each->attrs, "vjp");
      if (each == &kernel || (vjp && vjp->text == kernel.name)) tg::erase(each->attrs, "vjp");
    }
  }

  void rewriteCalls(Item& func) {
    Builder builder(&module_, &func);
    OpList old = func.body.ops.takeAll();
    while (!old.empty()) {
      std::unique_ptr<Op> op = old.takeFront();
      auto exact = op->code == Opcode::custom ? exact_.find(customKernel(*op, module_)) : exact_.end();
      if (exact == exact_.end())
        func.body.ops.push_back(std::move(op));
      else
        rewriteCall(builder, std::move(op), exact->second);
    }
  }

  Op* convert(Builder& builder, bool round, Value* value, const Type& type) {
    int rank = std::max(1, (round ? type : value->type).rank());
    std::string kernel = conversions_.name(round, rank);
    return builder.create(Opcode::custom, {Operand::symbol(kernel), Operand::of(value)}, {}, {type});
  }

  /// Splits the affected operands before a call; behind it rounds each affected result that has readers.
  void rewriteCall(Builder& builder, std::unique_ptr<Op> op, const Exact& exact) {
    std::vector<CustomParam> params = customParams(*customKernel(*op, module_));
    builder.setLoc(op->loc);
    for (size_t index = 0; index < params.size(); ++index) {
      if (!exact[index] || params[index].input < 0) continue;
      Operand& input = op->operands[static_cast<size_t>(params[index].input) + 1];
      builder.setHint(input.value->name + "_sums");
      input.value = convert(builder, false, input.value, withWords(input.value->type))->result();
    }
    Op& custom = *op;
    builder.ops().push_back(std::move(op));
    for (size_t index = 0; index < params.size(); ++index) {
      if (!exact[index] || params[index].result < 0) continue;
      std::unique_ptr<Value>& slot = custom.results[static_cast<size_t>(params[index].result)];
      if (slot->uses.empty()) {
        slot->type = withWords(slot->type);
        continue;
      }
      std::unique_ptr<Value> known = std::move(slot);
      slot = std::make_unique<Value>();
      slot->type = withWords(known->type);
      slot->name = builder.names().unique(known->name + "_sums");
      slot->loc = known->loc;
      slot->def = &custom;
      Op* rounded = convert(builder, true, slot.get(), known->type);
      known->def = rounded;
      rounded->results[0] = std::move(known);
    }
  }

  Module& module_;
  const Target& target_;
  const PassContext& context_;
  Conversions conversions_;
  std::unordered_map<const Item*, Exact> exact_;
  std::unordered_map<const Value*, int64_t> elements_;  ///< the most elements of a parameter in any call
};

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_exact_sums(Module& module, const ExactSumsOptions& options,
                                    const PassContext& context) {
  TG_TRY(const Target target, fuse::targetOn(module, "exact-sums"));
  if (options.deterministic) fuse::SumRewriter(module, target, context).run();
  return {};
}
