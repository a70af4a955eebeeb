// SPDX-License-Identifier: Apache-2.0
#include "runtime/commands.h"

#include <algorithm>

#include "ir/op_view.h"
#include "ir/verify.h"

namespace tg {

using vulkan::BindingKind;

namespace {

Result<BindingKind> texelKind(const Loc& loc, DType dtype, int lanes) {
  const DType component = dtype == DType::i1 ? DType::u32 : dtype;
  for (const vulkan::BindingRow& row : vulkan::kBindingRows)
    if (row.kind != BindingKind::storage && row.dtype == component && row.lanes == lanes) return row.kind;
  return failAt(loc, "no texel view holds {} of {}", lanes, name(dtype));
}

/// Parses a mode of a stripped kernel: `in`, `out`, `inout`, `texel(f32)`, `texel(f32x4)`, ….
Result<BindingKind> kindOfMode(const Item& binary, const Attr& mode) {
  if (mode.text == "in" || mode.text == "out" || mode.text == "inout") return BindingKind::storage;
  if (mode.text == "texel" && mode.list.size() == 1) {
    std::string_view word = mode.list[0].text;
    const bool wide = word.ends_with("x4");
    if (wide) word.remove_suffix(2);
    if (auto dtype = dtypeNamed(word)) return texelKind(binary.loc, *dtype, wide ? 4 : 1);
  }
  return failAt(binary.loc, "binary @{}: unknown mode {}", binary.name, mode.str());
}

}  // namespace

Result<std::vector<BindingKind>> bindingsOf(const Module& module, const Item& binary) {
  std::vector<BindingKind> kinds;
  const Item* kernel = module.find(ItemKind::kernel, binary.name);
  if (!kernel) {
    const Attr* modes = find(binary.attrs, "modes");
    if (!modes) return failAt(binary.loc, "binary @{} has neither a kernel nor modes", binary.name);
    for (const Attr& mode : modes->list) {
      TG_TRY(BindingKind kind, kindOfMode(binary, mode));
      kinds.push_back(kind);
    }
    return kinds;
  }
  const Attr* hash = find(binary.attrs, "kernel_hash");
  std::string expected = kernelHash(*kernel);
  if (!hash || hash->text != expected)
    return failAt(binary.loc,
                  "binary @{} is not made of the kernel beside it: its kernel_hash is {}, the kernel's {}",
                  binary.name, hash ? hash->text : "missing", expected)
        .note(kernel->loc, "the kernel; run spirv-emit again after an edit");
  for (const auto& arg : kernel->body.args) {
    const Type& type = arg->type;
    if (!type.texel) {
      kinds.push_back(BindingKind::storage);
      continue;
    }
    TG_TRY(BindingKind kind, texelKind(arg->loc, type.dtype, type.lanes));
    kinds.push_back(kind);
  }
  return kinds;
}

namespace {

DispatchStep dispatchOf(const Op& op) {
  DispatchStep dispatch;
  dispatch.kernel = as::dispatch(op).kernel();
  dispatch.label = as::dispatch(op).label();
  std::ranges::transform(gridOf(op), dispatch.grid.begin(),
                         [](int64_t extent) { return static_cast<uint32_t>(extent); });
  for (const Operand& argument : op.keyword("args")->items)
    dispatch.bindings.push_back(byteRangeOf(argument));
  return dispatch;
}

}  // namespace

std::vector<ProgramStep> programSteps(const Item& func) {
  std::vector<ProgramStep> steps;
  for (Op* op : func.body.ops) {
    if (op->code == Opcode::dispatch) steps.push_back({op->loc, dispatchOf(*op)});
    if (op->code == Opcode::barrier) steps.push_back({op->loc, BarrierStep{}});
    if (op->code == Opcode::collective_wait)
      steps.push_back({op->loc, WaitStep{as::collective_wait(*op).id()}});
    if (op->code == Opcode::collective_begin) {
      const as::collective_begin collective(*op);
      CollectiveStep begin{collective.id(), collective.kind(), collective.reduction(), {}, {}};
      for (const Operand& argument : op->keyword("args")->items)
        (argument.text == "out" ? begin.receive : begin.send).push_back(byteRangeOf(argument));
      steps.push_back({op->loc, std::move(begin)});
    }
    if (op->code != Opcode::fill && op->code != Opcode::copy) continue;
    const auto& args = op->keyword("args")->items;
    ByteRange first = byteRangeOf(args[0]);
    if (op->code == Opcode::fill) {
      steps.push_back({op->loc, FillStep{std::move(first)}});
    } else {
      steps.push_back({op->loc, CopyStep{std::move(first), byteRangeOf(args[1])}});
    }
  }
  return steps;
}

}  // namespace tg
