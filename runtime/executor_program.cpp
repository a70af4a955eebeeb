#include "runtime/executor_program.h"

#include <fmt/format.h>

#include "ir/verify_dispatch.h"

namespace tg {

using vulkan::BindingKind;

namespace {

Result<BindingKind> texelKind(const Loc& loc, DType dtype, int lanes) {
  bool wide = lanes == 4;
  if (lanes == 1 || wide) switch (dtype) {
    case DType::f32: return wide ? BindingKind::texelF32x4 : BindingKind::texelF32;
    case DType::i32: return wide ? BindingKind::texelI32x4 : BindingKind::texelI32;
    case DType::i1:
    case DType::u32: return wide ? BindingKind::texelU32x4 : BindingKind::texelU32;
    case DType::f16: break;
    }
  return failAt(loc, fmt::format("no texel view holds {} of {}", lanes, name(dtype)));
}

/// A mode of a stripped kernel: `in`, `out`, `inout`, `texel(f32)`, `texel(f32x4)`, ….
Result<BindingKind> kindOfMode(const Item& binary, const Attr& mode) {
  if (mode.text == "in" || mode.text == "out" || mode.text == "inout") return BindingKind::storage;
  constexpr std::pair<std::string_view, DType> texels[] = {
      {"f32", DType::f32}, {"i32", DType::i32}, {"u32", DType::u32}};
  for (const auto& [word, dtype] : texels) {
    if (mode.text != "texel" || mode.list.size() != 1) continue;
    if (mode.list[0].text == word) return texelKind(binary.loc, dtype, 1);
    if (mode.list[0].text == fmt::format("{}x4", word)) return texelKind(binary.loc, dtype, 4);
  }
  return failAt(binary.loc, fmt::format("binary @{}: unknown mode {}", binary.name, mode.str()));
}

}  // namespace

Result<std::vector<BindingKind>> bindingsOf(const Module& module, const Item& binary) {
  std::vector<BindingKind> kinds;
  const Item* kernel = module.find(ItemKind::kernel, binary.name);
  if (!kernel) {
    const Attr* modes = find(binary.attrs, "modes");
    if (!modes)
      return failAt(binary.loc, fmt::format("binary @{} has neither a kernel nor modes", binary.name));
    for (const Attr& mode : modes->list) {
      TG_TRY(BindingKind kind, kindOfMode(binary, mode));
      kinds.push_back(kind);
    }
    return kinds;
  }
  const Attr* hash = find(binary.attrs, "kernel_hash");
  std::string expected = kernelHash(*kernel);
  if (!hash || hash->text != expected)
    return failAt(
               binary.loc,
               fmt::format(
                   "binary @{} is not made of the kernel beside it: its kernel_hash is {}, the kernel's {}",
                   binary.name, hash ? hash->text : "missing", expected))
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

Result<vulkan::Binding> Executor::Program::range(const std::string& name, int64_t offset,
                                                 int64_t bytes) const {
  auto found = buffers.find(name);
  if (found == buffers.end()) return fail(fmt::format("the module has no buffer @{}", name));
  // Of a single buffer the recording checks the range.
  const Segments& segments = found->second;
  for (const Segment& segment : segments)
    if (segments.size() == 1 || (segment.base <= offset && offset + bytes <= segment.end()))
      return vulkan::Binding{segment.buffer.get(), offset - segment.base, bytes};
  return fail(fmt::format("@{}[{}:{}] does not lie in one of the buffers it is made of", name, offset,
                          offset + bytes));
}

std::vector<std::shared_ptr<vulkan::Buffer>> Executor::Program::allBuffers() const {
  std::vector<std::shared_ptr<vulkan::Buffer>> out;
  for (const auto& [name, segments] : buffers)
    for (const Segment& segment : segments) out.push_back(segment.buffer);
  return out;
}

Result<vulkan::Binding> Executor::Program::binding(const Op& op, const Operand& argument) const {
  const Operand& named = argument.items.front();
  auto found = range(named.text, named.items[0].integer, named.items[1].integer);
  if (!found) return failAt(op.loc, found.error().message());
  return *found;
}

Result<vulkan::Dispatch> Executor::Program::dispatch(const Op& op) const {
  vulkan::Dispatch dispatch;
  const std::string& kernel = op.operands[0].text;
  auto pipeline = pipelines.find(kernel);
  if (pipeline == pipelines.end()) return failAt(op.loc, fmt::format("there is no binary @{}", kernel));
  dispatch.pipeline = pipeline->second;
  std::string label = op.word("label");
  dispatch.label = label.empty() ? kernel : fmt::format("{} ({})", kernel, label);
  const Operand& grid = *op.keyword("grid");
  for (size_t axis = 0; axis < grid.items.size() && axis < 3; ++axis)
    dispatch.grid[axis] = static_cast<uint32_t>(grid.items[axis].integer);
  for (const Operand& argument : op.keyword("args")->items) {
    TG_TRY(vulkan::Binding bound, binding(op, argument));
    dispatch.bindings.push_back(bound);
  }
  return dispatch;
}

Result<std::vector<vulkan::Command>> Executor::Program::commandsOf(const Item& func) const {
  std::vector<vulkan::Command> commands;
  for (const auto& op : func.body.ops) {
    if (op->code == Opcode::dispatch) {
      TG_TRY(vulkan::Dispatch made, dispatch(*op));
      commands.emplace_back(std::move(made));
    }
    if (op->code == Opcode::barrier) commands.emplace_back(std::in_place_type<vulkan::Barrier>);
    if (op->code != Opcode::fill && op->code != Opcode::copy) continue;
    const auto& args = op->keyword("args")->items;
    TG_TRY(vulkan::Binding first, binding(*op, args[0]));
    if (op->code == Opcode::fill) {
      commands.emplace_back(vulkan::Fill{first.buffer, first.offset, first.bytes, 0});
      continue;
    }
    TG_TRY(vulkan::Binding second, binding(*op, args[1]));
    commands.emplace_back(
        vulkan::Copy{first.buffer, first.offset, second.buffer, second.offset, first.bytes});
  }
  return commands;
}

}  // namespace tg
