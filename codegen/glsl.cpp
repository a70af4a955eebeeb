// SPDX-License-Identifier: Apache-2.0
// Kernel to GLSL: the survey of a kernel, the outline of a shader, and control flow. Memory is in glsl_memory.cpp,
// arithmetic in glsl_expr.cpp.
#include "codegen/glsl.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/glsl_printer.h"
#include "codegen/lower.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/semantics.h"

namespace tg {

GlslSurvey::GlslSurvey(const Item& kernel, const Target& target) {
  for (const auto& param : kernel.body.args) {
    texels |= param->type.texel;
    halves |= isNarrow(param->type.dtype) && target.halfStorage;
  }
  storesHalves = target.halfStorage;
  std::unordered_set<const Value*> added;
  walk(kernel.body, [&](Op& op) {
    visit(op);
    // Native additions are for storage only, and only for buffers that no other atomic accesses as bits.
    bool native = op.code == Opcode::k_atomic_add && target.floatAtomics &&
                  op.operands.back().value->type.mode != BufMode::shared;
    if (op.info().name.starts_with("tgk.atomic_") && isFloat(op.operands.back().value->type.dtype))
      (native ? added : floatBits).insert(op.operands.back().value);
  });
  khrMatrices = matrices && target.matrices == "khr";
  quads = target.knowsFragments();
  for (const Value* buffer : added) nativeAdds |= !floatBits.contains(buffer);
}

void GlslSurvey::visit(const Op& op) {
  const Operand* element = op.operands.empty() ? nullptr : &op.operands.back();
  if (element && element->kind != Operand::Kind::element) element = nullptr;
  if (element && (isLoad(op) || op.code == Opcode::k_accumulate)) loaded.insert(element->value);
  if (element && !isLoad(op)) written.insert(element->value);
  barriers |= op.code == Opcode::k_barrier;
  reductions |= op.code == Opcode::k_workgroup_reduce;
  matrices |= isCoopmatOp(op.code);
  for (const auto& result : op.results)
    if (result->type.isCoopmat())
      for (const MatrixExtent& extent : tg::matrixExtents(result->type)) matrixExtents.insert(extent);
  unrolls |= isCoopmatOp(op.code) || (op.code == Opcode::k_for && (op.flag("unroll") || op.flag("rolled")));
  subgroupArithmetic |= op.code == Opcode::k_subgroup_reduce;
  subgroupShuffle |= op.code == Opcode::k_subgroup_shuffle || op.code == Opcode::k_coopmat_row_reduce;
  subgroupBallot |= op.code == Opcode::k_subgroup_ballot || op.code == Opcode::k_coopmat_any_above;
  subgroupBasic |= op.code == Opcode::k_subgroup_size || op.code == Opcode::k_subgroup_id ||
                   op.code == Opcode::k_subgroup_lane;
}

std::string glslVariable(const Type& type) {
  if (type.isCoopmat()) return glslMatrix(type);
  return (isFloat(type.dtype) ? "precise " : "") + glslType(type);
}

void GlslPrinter::extensions(GlslLines& out) const {
  const std::pair<bool, const char*> all[] = {
      {survey_.texels, "GL_EXT_samplerless_texture_functions"},
      {survey_.unrolls, "GL_EXT_control_flow_attributes"},
      {survey_.halves, "GL_EXT_shader_16bit_storage"},
      {survey_.nativeAdds, "GL_EXT_shader_atomic_float"},
      {survey_.subgroupBasic, "GL_KHR_shader_subgroup_basic"},
      {survey_.subgroupArithmetic, "GL_KHR_shader_subgroup_arithmetic"},
      {survey_.subgroupShuffle, "GL_KHR_shader_subgroup_shuffle"},
      {survey_.subgroupBallot, "GL_KHR_shader_subgroup_ballot"},
  };
  for (const auto& [needed, name] : all)
    if (needed) out.add("#extension {} : require", name);
  if (!survey_.matrices) return;
  if (!survey_.subgroupBasic) out.add("#extension GL_KHR_shader_subgroup_basic : require");
  for (const char* name : glslMatrixExtensions()) out.add("#extension {} : require", name);
  for (const MatrixExtent& extent : survey_.matrixExtents) out.add("{}", glslMatrixExtent(extent));
}

/// The shader: header, parameters and shared memory, helper functions, main. The body is printed first into lines
/// of its own, since it decides what the parts before it must have.
GlslText GlslPrinter::print() {
  GlslLines out;
  out.add("#version 450");
  extensions(out);
  const auto& size = kernel_.workgroup;
  out.add("layout(local_size_x = {}, local_size_y = {}, local_size_z = {}) in;", size[0], size[1], size[2]);

  main_.depth = 1;
  std::swap(out, shared_);  // The header precedes the declarations that body() finds to be needed.
  for (size_t index = 0; index < kernel_.body.args.size(); ++index)
    parameter(*kernel_.body.args[index], static_cast<int>(index));
  foresee();
  body(kernel_.body);
  std::swap(out, shared_);
  for (const auto& [name, text] : scratch_) out.block(text);
  out.block(helpers_.text());
  for (const auto& [name, text] : functions_) out.block(text);
  out.add("");
  out.add("void main() {{");
  out.append(main_);
  out.add("}}");
  GlslText text = out.take();
  text.khrMatrices = survey_.khrMatrices;
  return text;
}

void GlslPrinter::body(const Block& block) {
  for (const Op* each = block.ops.front(); each; each = each->next()) {
    if (each->code == Opcode::k_yield) continue;
    if (const std::vector<const Op*> run = matrixRun(*each); !run.empty())
      matrixElements(run), each = run.back();
    else
      op(*each);
  }
}

std::string GlslPrinter::operandText(const Operand& operand, const Type& type) {
  if (!operand.isLiteral()) return names_.of(operand.value);
  std::string text = glslLiteral(operand, type.dtype);
  return type.lanes == 1 ? text : fmt::format("{}({})", glslType(type), text);
}

/// The literal that an operand has in every lane; null if it is none.
static const Operand* literalOf(const Operand& operand) {
  if (operand.isLiteral()) return &operand;
  const Op* def = operand.value->def;
  const bool splat =
      def && (def->code == Opcode::k_constant || (def->code == Opcode::k_vec && def->operands.size() == 1));
  return splat && def->operands[0].isLiteral() ? &def->operands[0] : nullptr;
}

/// An arithmetic expression. Operands that are matrices are printed as their element `e`, for matrixElements' loop. Matrices
/// of bool are matrices of f32 in the shader, with 0 and 1.
std::string GlslPrinter::expression(const Op& op) {
  std::vector<GlslOperand> operands;
  size_t count = op.code == Opcode::k_extract ? 1 : op.operands.size();
  for (size_t index = 0; index < count; ++index) {
    const Operand& operand = op.operands[index];
    Type type = operandType(op, operand);
    if (type.isCoopmat()) type = Type::scalar(type.dtype);  // of each element
    std::string text = operandText(operand, type);
    if (!operand.isLiteral() && operand.value->type.isCoopmat() && !elements_.contains(operand.value))
      text = type.dtype == DType::i1 ? fmt::format("({}[e] != 0.0)", text) : text + "[e]";
    operands.push_back({std::move(text), type, literalOf(operand), isForeseen(operand)});
  }
  return glslExpression(op, operands, helpers_);
}

void GlslPrinter::define(const Op& op, const std::string& expression) {
  main_.add("{} {} = {};", glslVariable(op.result()->type), names_.of(op.result()), expression);
}

void GlslPrinter::branchBody(const Op& op, const Block& block) {
  ++main_.depth;
  body(block);
  if (const Op* yield = yieldOf(block)) {
    main_.op = yield;
    for (size_t index = 0; index < op.results.size(); ++index) {
      const Value* result = op.results[index].get();
      main_.add("{} = {};", names_.of(result), operandText(yield->operands[index], result->type));
    }
  }
  main_.op = &op;
  --main_.depth;
}

/// Results are variables that both branches assign.
void GlslPrinter::branch(const Op& op) {
  for (const auto& result : op.results)
    main_.add("{} {};", glslVariable(result->type), names_.of(result.get()));
  main_.add("if ({}) {{", operandText(op.operands[0], Type::scalar(DType::i1)));
  open_.push_back({op.operands[0].value, true});
  branchBody(op, *op.regions[0]);
  open_.back().holds = false;
  if (op.regions.size() == 2 && !op.regions[1]->ops.empty()) {
    main_.add("}} else {{");
    branchBody(op, *op.regions[1]);
  }
  open_.pop_back();
  main_.add("}}");
}

/// Assigns the next values to a loop's carried variables. A carried value that is yielded as another one, and would
/// be overwritten before, is copied first.
void GlslPrinter::yieldToLoop(const Op& op) {
  const Op* yield = yieldOf(*op.regions[0]);
  const auto& carried = iterArgs(op);
  if (!yield) return;
  main_.op = yield;
  std::vector<std::pair<std::string, std::string>> moves;
  for (size_t index = 0; index < carried.size(); ++index) {
    const Operand& next = yield->operands[index];
    const Type& type = carried[index].value->type;
    std::string target = names_.of(carried[index].value), source = operandText(next, type);
    if (source == target) continue;
    bool clobbered = false;
    for (size_t before = 0; before < index; ++before)
      clobbered |= next.value == carried[before].value && next.value;
    if (clobbered) {
      std::string copy = names_.unique(target + "_next");
      main_.add("{} {} = {};", glslVariable(type), copy, source);
      source = copy;
    }
    moves.emplace_back(target, source);
  }
  for (const auto& [target, source] : moves) main_.add("{} = {};", target, source);
}

/// Whether the loop's index plus its step may exceed a u32. It would wrap around to a number below the limit.
bool GlslPrinter::indexMayWrap(const Op& loop) {
  const LoopRange range = rangeOf(loop);
  if (range.step.isLiteral() && range.step.integer == 1) return false;
  auto most = [&](const Operand& operand) {
    if (operand.isLiteral()) return operand.integer;
    if (!indices_) indices_.emplace(kernel_);
    return indices_->range(operand, loop).hi;
  };
  return most(range.to) + most(range.step) - 1 > UINT32_MAX;
}

void GlslPrinter::loop(const Op& op) {
  const auto& carried = iterArgs(op);
  for (size_t index = 0; index < carried.size(); ++index) {
    // Result and carried value are one variable; it takes the result's name.
    const Value* argument = carried[index].value;
    if (index < op.results.size()) names_.alias(argument, op.results[index].get());
    main_.add("{} {} = {};", glslVariable(argument->type), names_.of(argument),
              operandText(carried[index].items[0], argument->type));
  }
  Type count = Type::scalar(DType::u32);
  const std::string& index = names_.of(op.operands[0].value);
  const LoopRange range = rangeOf(op);
  const std::string to = operandText(range.to, count), by = operandText(range.step, count);
  const char* hint = op.flag("unroll") ? "[[unroll]] " : op.flag("rolled") ? "[[dont_unroll]] " : "";
  main_.add("{}for (uint {} = {}; {} < {}; {} += {}) {{", hint, index, operandText(range.from, count), index,
            to, index, indexMayWrap(op) ? fmt::format("min({}, {} - {})", by, to, index) : by);
  ++main_.depth;
  body(*op.regions[0]);
  yieldToLoop(op);
  main_.op = &op;
  --main_.depth;
  main_.add("}}");
}

void GlslPrinter::op(const Op& op) {
  using enum KernelOp;
  main_.op = &op;
  auto id = [&](const char* builtin) {
    define(op, fmt::format("{}.{}", builtin, glslLane(op.operands[0].integer)));
  };
  switch (kernelOp(op.code)) {
  case k_global_id: id("gl_GlobalInvocationID"); break;
  case k_local_id: id("gl_LocalInvocationID"); break;
  case k_workgroup_id: id("gl_WorkGroupID"); break;
  case k_num_workgroups: id("gl_NumWorkGroups"); break;
  case k_subgroup_size: define(op, "gl_SubgroupSize"); break;
  case k_subgroup_id: define(op, "gl_SubgroupID"); break;
  case k_subgroup_lane: define(op, "gl_SubgroupInvocationID"); break;
  case k_dim: define(op, extent(op)); break;
  case k_load: define(op, load(op)); break;
  case k_store: store(op); break;
  case k_accumulate: accumulate(op); break;
  case k_atomic_add: atomicAdd(op); break;
  case k_atomic_and: atomic(op, "atomicAnd"); break;
  case k_atomic_or: atomic(op, "atomicOr"); break;
  case k_atomic_xor: atomic(op, "atomicXor"); break;
  case k_atomic_min: atomic(op, "atomicMin"); break;
  case k_atomic_max: atomic(op, "atomicMax"); break;
  case k_atomic_exchange: atomic(op, "atomicExchange"); break;
  case k_atomic_compare_exchange: compareExchange(op); break;
  case k_exact_add:
  case k_exact_store: main_.add("{};", exact(op)); break;
  case k_exact_load: define(op, exact(op)); break;
  case k_shared:
  case k_local: declare(op); break;
  case k_if: branch(op); break;
  case k_for: loop(op); break;
  case k_yield: break;
  case k_barrier: barrier(); break;
  case k_workgroup_reduce: define(op, workgroupReduce(op)); break;
  case k_subgroup_reduce: define(op, subgroupReduce(op)); break;
  case k_subgroup_shuffle: define(op, subgroupShuffle(op)); break;
  case k_subgroup_ballot:
    define(op, fmt::format("subgroupBallot({})", operandText(op.operands[0], Type::scalar(DType::i1))));
    break;
  case k_round_f16: define(op, roundHalf(op)); break;
  case k_round_bf16: define(op, roundBf16(op)); break;
  case k_pack_f16: define(op, packNarrow(op, DType::f16)); break;
  case k_pack_bf16: define(op, packNarrow(op, DType::bf16)); break;
  case k_unpack_f16: define(op, unpackNarrow(op, DType::f16)); break;
  case k_unpack_bf16: define(op, unpackNarrow(op, DType::bf16)); break;
  case k_coopmat_splat:
    define(op, fmt::format("{}({})", glslMatrix(op.result()->type),
                           operandText(op.operands[0], Type::scalar(DType::f32))));
    break;
  case k_coopmat_load: matrixLoad(op); break;
  case k_coopmat_mma: matrixProduct(op); break;
  case k_coopmat_index: matrixIndex(op); break;
  case k_coopmat_repeat: matrixRepeat(op); break;
  case k_coopmat_row_reduce: matrixRowReduce(op); break;
  case k_coopmat_any_above: matrixAnyAbove(op); break;
  case k_coopmat_convert: matrixConvert(op); break;
  case k_coopmat_store: matrixStore(op); break;
  default: define(op, expression(op));  // arithmetic
  }
  main_.op = nullptr;
}

/// Checks the requirements of the printer that the verifier does not.
static Result<void> checkForm(const Item& kernel) {
  if (kernel.kind != ItemKind::kernel) return failAt(kernel.loc, "@{} is not a kernel", kernel.name);
  for (const auto& param : kernel.body.args)
    for (int axis = 1; axis < param->type.rank(); ++axis)
      if (param->type.shape[axis] == Shape::kDynamic)
        return failAt(kernel.loc,
                      "kernel @{}: axis {} of %{} is open, and only axis 0 may be in a shader; call the "
                      "kernel with tg.custom, which binds it",
                      kernel.name, axis, param->name);
  Error errors;
  walk(kernel.body, [&](Op& op) {
    if (!isLegal(op))
      errors.append(
          failAt(op.loc, "{} has no form in a shader before it is expanded (legalize)", op.info().name));
  });
  if (!errors.empty()) return errors;
  return {};
}

Result<GlslText> printGlsl(const Item& kernel, const Target& target) {
  TG_CHECK(checkForm(kernel));
  TG_CHECK(checkFeatures(kernel, target));
  return GlslPrinter(kernel, target).print();
}

Result<std::string> emitGlsl(const Module& module) {
  if (module.stage < Stage::kernel)
    return failAt(module.loc,
                  "GLSL needs a module of stage kernel or spirv, not {}; run spirv-emit{{emit=glsl}} first",
                  name(module.stage));
  TG_TRY(Target target, targetOf(module.attrs));
  std::unique_ptr<Module> copy = clone(module);
  std::string text;
  Error errors;
  for (Item* kernel : copy->all(ItemKind::kernel)) {
    legalize(copy.get(), *kernel);
    Result<GlslText> glsl = printGlsl(*kernel, target);
    if (!glsl)
      errors.append(glsl.takeError());
    else
      text += fmt::format("// kernel @{}\n{}\n", kernel->name, glsl->text);
  }
  if (!errors.empty()) return errors;
  return text;
}

}  // namespace tg
