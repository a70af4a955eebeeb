// Kernel to GLSL: parameters, memory, control flow. Arithmetic is in glsl_expr.cpp.
#include "codegen/glsl.h"

#include <fmt/format.h>

#include <bit>
#include <unordered_set>

#include "codegen/glsl_expr.h"
#include "codegen/glsl_names.h"
#include "ir/kernel/kernel.h"

namespace tg {
namespace {

/// What must be known of a kernel before its first line is printed.
struct Survey {
  std::unordered_set<const Value*> loaded, stored, atomicFloat;
  bool barriers = false;

  explicit Survey(const Item& kernel) {
    walk(kernel.body, [&](Op& op) {
      barriers |= op.code == Opcode::k_barrier;
      if (op.code == Opcode::k_load) loaded.insert(op.operands[0].value);
      if (op.code == Opcode::k_store) stored.insert(op.operands[1].value);
      if (op.code == Opcode::k_atomic_add && isFloat(op.operands[1].value->type.dtype))
        atomicFloat.insert(op.operands[1].value);
    });
  }
};

class Lines {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    out_.text += std::string(2 * depth, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
    out_.lineLocs.push_back(op ? op->loc : nullptr);
    out_.lineOps.push_back(op ? op->info().name : std::string_view());
  }
  void append(const Lines& other) {
    out_.text += other.out_.text;
    out_.lineLocs.insert(out_.lineLocs.end(), other.out_.lineLocs.begin(), other.out_.lineLocs.end());
    out_.lineOps.insert(out_.lineOps.end(), other.out_.lineOps.begin(), other.out_.lineOps.end());
  }
  /// Adds a text of several lines that no op stands behind.
  void block(std::string_view text) {
    for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
      add("{}", text.substr(0, end));
  }
  GlslText take() { return std::move(out_); }

  int depth = 0;
  const Op* op = nullptr;

 private:
  GlslText out_;
};

class GlslPrinter {
 public:
  explicit GlslPrinter(const Item& kernel) : kernel_(kernel), survey_(kernel) {}
  GlslText print();

 private:
  void parameter(const Value& param, int binding);
  void body(const Block& block);
  void op(const Op& op);
  void define(const Op& op, const std::string& expression);
  void memory(const Op& op);
  void store(const Op& op);
  void atomicAdd(const Op& op);
  void atomicAddFloat(const Op& op, const std::string& place);
  void branch(const Op& op);
  void branchBody(const Op& op, const Block& block);
  void loop(const Op& op);
  void yieldToLoop(const Op& op);
  void barrier();
  std::string load(const Op& op);
  std::string extent(const Op& op);
  std::string reduce(const Op& op);
  std::string place(const Operand& element);
  std::string flatIndex(const Operand& element);
  std::string operandText(const Operand& operand, const Type& type);
  std::string expression(const Op& op);
  bool coherent(const Value& param) const;
  std::string storedType(const Value& buffer) const;

  const Item& kernel_;
  Survey survey_;
  GlslNames names_;
  GlslHelpers helpers_;
  std::map<std::string, std::string> reductions_;  ///< by name: the function's text
  std::map<std::string, std::string> scratch_;     ///< by name: shared memory of the reductions
  Lines shared_, main_;
};

std::string qualified(const Type& type) { return (isFloat(type.dtype) ? "precise " : "") + glslType(type); }

GlslText GlslPrinter::print() {
  Lines out;
  out.add("#version 450");
  bool texel = false, unroll = false;
  for (const auto& param : kernel_.body.args) texel |= param->type.texel;
  walk(kernel_.body, [&](Op& op) { unroll |= op.code == Opcode::k_for && op.flag("unroll"); });
  if (texel) out.add("#extension GL_EXT_samplerless_texture_functions : require");
  if (unroll) out.add("#extension GL_EXT_control_flow_attributes : require");
  const auto& size = kernel_.workgroup;
  out.add("layout(local_size_x = {}, local_size_y = {}, local_size_z = {}) in;", size[0], size[1], size[2]);

  main_.depth = 1;
  std::swap(out, shared_);  // the header comes first, then what body() finds it needs
  for (size_t index = 0; index < kernel_.body.args.size(); ++index)
    parameter(*kernel_.body.args[index], static_cast<int>(index));
  body(kernel_.body);
  std::swap(out, shared_);
  for (const auto& [name, text] : scratch_) out.block(text);
  out.block(helpers_.text());
  for (const auto& [name, text] : reductions_) out.block(text);
  out.add("");
  out.add("void main() {{");
  out.append(main_);
  out.add("}}");
  return out.take();
}

/// Values that another invocation reads after a barrier must leave the writer's cache.
bool GlslPrinter::coherent(const Value& param) const {
  return survey_.barriers && survey_.loaded.contains(&param) && survey_.stored.contains(&param);
}

/// A buffer's element as it is declared: floats that are added to atomically are bits.
std::string GlslPrinter::storedType(const Value& buffer) const {
  return survey_.atomicFloat.contains(&buffer) ? "uint" : glslType(elementType(buffer.type));
}

void GlslPrinter::parameter(const Value& param, int binding) {
  const std::string& name = names_.of(&param);
  if (param.type.texel) {
    const char* prefix = param.type.dtype == DType::u32 ? "u" : param.type.dtype == DType::i32 ? "i" : "";
    return shared_.add("layout(set = 0, binding = {}) uniform {}textureBuffer {};", binding, prefix, name);
  }
  std::string access = param.type.mode == BufMode::in    ? "readonly "
                       : param.type.mode == BufMode::out ? "writeonly "
                       : coherent(param)                 ? "coherent "
                                                         : "";
  shared_.add("layout(std430, set = 0, binding = {}) {}buffer B{} {{ {} {}[]; }};", binding, access, binding,
              storedType(param), name);
}

void GlslPrinter::body(const Block& block) {
  for (const auto& each : block.ops)
    if (each->code != Opcode::k_yield) op(*each);
}

std::string GlslPrinter::operandText(const Operand& operand, const Type& type) {
  if (!operand.isLiteral()) return names_.of(operand.value);
  std::string text = glslLiteral(operand, type.dtype);
  return type.lanes == 1 ? text : fmt::format("{}({})", glslType(type), text);
}

std::string GlslPrinter::expression(const Op& op) {
  std::vector<GlslOperand> operands;
  size_t count = op.code == Opcode::k_extract ? 1 : op.operands.size();
  for (size_t index = 0; index < count; ++index) {
    const Operand& operand = op.operands[index];
    Type type = operandType(op, operand);
    operands.push_back({operandText(operand, type), type, operand.isLiteral() ? &operand : nullptr});
  }
  return glslExpression(op, operands, helpers_);
}

void GlslPrinter::define(const Op& op, const std::string& expression) {
  main_.add("{} {} = {};", qualified(op.result()->type), names_.of(op.result()), expression);
}

/// Row-major position of an element; strides are literals because only axis 0 may be open.
std::string GlslPrinter::flatIndex(const Operand& element) {
  const Type& buffer = element.value->type;
  if (buffer.rank() == 1 && !element.items[0].isLiteral()) return names_.of(element.items[0].value);
  int64_t constant = 0, stride = 1;
  std::string terms;
  for (int axis = buffer.rank() - 1; axis >= 0; stride *= buffer.shape[axis--]) {
    const Operand& index = element.items[axis];
    if (index.isLiteral()) {
      constant += index.integer * stride;
      continue;
    }
    std::string term = names_.of(index.value);
    if (index.value->type.dtype == DType::i32) term = fmt::format("uint({})", term);
    if (stride != 1) term += fmt::format(" * {}u", stride);
    terms = terms.empty() ? term : term + " + " + terms;
  }
  if (terms.empty()) return std::to_string(constant);
  return constant ? fmt::format("{} + {}u", terms, constant) : terms;
}

std::string GlslPrinter::place(const Operand& element) {
  return fmt::format("{}[{}]", names_.of(element.value), flatIndex(element));
}

std::string GlslPrinter::load(const Op& op) {
  const Operand& element = op.operands[0];
  if (element.value->type.texel) {
    const char* lanes = op.result()->type.lanes == 1 ? ".x" : op.result()->type.lanes == 2 ? ".xy" : "";
    return fmt::format("texelFetch({}, int({})){}", names_.of(element.value), flatIndex(element), lanes);
  }
  bool bits = survey_.atomicFloat.contains(element.value);
  return bits ? fmt::format("uintBitsToFloat({})", place(element)) : place(element);
}

void GlslPrinter::store(const Op& op) {
  const Operand& element = op.operands[1];
  std::string value = operandText(op.operands[0], elementType(element.value->type));
  bool bits = survey_.atomicFloat.contains(element.value);
  main_.add("{} = {};", place(element), bits ? fmt::format("floatBitsToUint({})", value) : value);
}

void GlslPrinter::atomicAdd(const Op& op) {
  const Operand& element = op.operands[1];
  if (isFloat(element.value->type.dtype)) return atomicAddFloat(op, place(element));
  main_.add("atomicAdd({}, {});", place(element),
            operandText(op.operands[0], elementType(element.value->type)));
}

void GlslPrinter::atomicAddFloat(const Op& op, const std::string& place) {
  std::string seen = names_.unique("seen"), sum = names_.unique("sum"), was = names_.unique("was");
  main_.add("for (uint {} = {};;) {{", seen, place);
  ++main_.depth;
  main_.add("precise float {} = uintBitsToFloat({}) + {};", sum, seen,
            operandText(op.operands[0], Type::scalar(DType::f32)));
  main_.add("uint {} = atomicCompSwap({}, {}, floatBitsToUint({}));", was, place, seen, sum);
  main_.add("if ({} == {}) break;", was, seen);
  main_.add("{} = {};", seen, was);
  --main_.depth;
  main_.add("}}");
}

std::string GlslPrinter::extent(const Op& op) {
  const Value& buffer = *op.in(0);
  int64_t axis = op.operands[1].integer;
  if (buffer.type.shape[static_cast<int>(axis)] != Shape::kDynamic)
    return fmt::format("{}u", buffer.type.shape[static_cast<int>(axis)]);
  const std::string& name = names_.of(&buffer);
  std::string all =
      buffer.type.texel ? fmt::format("uint(textureSize({}))", name) : fmt::format("uint({}.length())", name);
  int64_t row = 1;
  for (int other = 1; other < buffer.type.rank(); ++other) row *= buffer.type.shape[other];
  return row == 1 ? all : fmt::format("{} / {}u", all, row);
}

void GlslPrinter::memory(const Op& op) {
  Lines& lines = op.code == Opcode::k_shared ? shared_ : main_;
  lines.op = &op;
  lines.add("{}{} {}[{}];", op.code == Opcode::k_shared ? "shared " : "", storedType(*op.result()),
            names_.of(op.result()), op.result()->type.elements());
  lines.op = nullptr;
}

void GlslPrinter::barrier() {
  for (const auto& param : kernel_.body.args)
    if (coherent(*param)) {
      main_.add("memoryBarrierBuffer();");
      break;
    }
  main_.add("barrier();");
}

/// A function that folds one value of each invocation along a tree, whose order depends only on the
/// workgroup's size.
std::string GlslPrinter::reduce(const Op& op) {
  std::string kind = op.word("kind"), type = glslType(op.result()->type);
  std::string function = fmt::format("tgReduce_{}_{}", kind, type), lanes = fmt::format("tgLanes_{}", type);
  auto count = static_cast<uint32_t>(kernel_.workgroup[0] * kernel_.workgroup[1] * kernel_.workgroup[2]);
  scratch_[lanes] = fmt::format("shared {} {}[{}];\n", type, lanes, count);
  std::string x = fmt::format("{}[at]", lanes), y = fmt::format("{}[at + width]", lanes);
  bool flt = isFloat(op.result()->type.dtype);
  std::string fold =
      kind == "add" ? fmt::format("{} + {}", x, y)
      : flt ? fmt::format("{}({}, {})", helpers_.need(kind == "min" ? "Min" : "Max", op.result()->type), x, y)
            : fmt::format("{}({}, {})", kind, x, y);
  reductions_[function] =
      fmt::format("{0} {1}({0} x) {{\n"
                  "  uint at = gl_LocalInvocationIndex;\n"
                  "  {2}[at] = x;\n"
                  "  barrier();\n"
                  "  for (uint width = {3}u; width > 0u; width >>= 1) {{\n"
                  "    if (at < width && at + width < {4}u) {{\n"
                  "      {5} folded = {6};\n"
                  "      {2}[at] = folded;\n"
                  "    }}\n"
                  "    barrier();\n"
                  "  }}\n"
                  "  {0} result = {2}[0];\n"
                  "  barrier();\n"
                  "  return result;\n"
                  "}}\n",
                  type, function, lanes, std::bit_ceil(count) / 2, count, qualified(op.result()->type), fold);
  return fmt::format("{}({})", function, operandText(op.operands[0], op.result()->type));
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

void GlslPrinter::branch(const Op& op) {
  for (const auto& result : op.results) main_.add("{} {};", qualified(result->type), names_.of(result.get()));
  main_.add("if ({}) {{", operandText(op.operands[0], Type::scalar(DType::i1)));
  branchBody(op, *op.regions[0]);
  if (op.regions.size() == 2 && !op.regions[1]->ops.empty()) {
    main_.add("}} else {{");
    branchBody(op, *op.regions[1]);
  }
  main_.add("}}");
}

/// Assigns the carried values, of which one may be yielded as another: those go through copies.
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
      main_.add("{} {} = {};", qualified(type), copy, source);
      source = copy;
    }
    moves.emplace_back(target, source);
  }
  for (const auto& [target, source] : moves) main_.add("{} = {};", target, source);
}

void GlslPrinter::loop(const Op& op) {
  const auto& carried = iterArgs(op);
  for (size_t index = 0; index < carried.size(); ++index) {
    // Result and carried value are one variable; it takes the result's name.
    const Value* argument = carried[index].value;
    if (index < op.results.size()) names_.alias(argument, op.results[index].get());
    main_.add("{} {} = {};", qualified(argument->type), names_.of(argument),
              operandText(carried[index].items[0], argument->type));
  }
  Type count = Type::scalar(DType::u32);
  const std::string& index = names_.of(op.operands[0].value);
  const Operand* step = op.keyword("step");
  main_.add("{}for (uint {} = {}; {} < {}; {} += {}) {{", op.flag("unroll") ? "[[unroll]] " : "", index,
            operandText(op.operands[0].items[0], count), index,
            operandText(op.keyword("to")->items[0], count), index,
            step ? operandText(step->items[0], count) : "1u");
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
  case k_dim: define(op, extent(op)); break;
  case k_load: define(op, load(op)); break;
  case k_store: store(op); break;
  case k_atomic_add: atomicAdd(op); break;
  case k_shared:
  case k_local: memory(op); break;
  case k_if: branch(op); break;
  case k_for: loop(op); break;
  case k_yield: break;
  case k_barrier: barrier(); break;
  case k_workgroup_reduce: define(op, reduce(op)); break;
  case k_ceil:
  case k_round:
  case k_trunc:
  case k_exp2:
  case k_log2:
  case k_reciprocal:
  case k_sin:
  case k_cos:
  case k_tan:
  case k_asin:
  case k_acos:
  case k_atan:
  case k_sinh:
  case k_cosh:
  case k_tanh:
  case k_erf:
  case k_stop_gradient:
  case k_popcount:
  case k_clz:
  case k_ctz:
  case k_reverse_bits:
  case k_isnan:
  case k_isinf:
  case k_isfinite:
  case k_rotl:
  case k_rotr:
  case k_add_sat:
  case k_sub_sat:
  case k_mul_sat:
  case k_abs_diff:
  case k_atomic_and:
  case k_atomic_or:
  case k_atomic_xor:
  case k_atomic_min:
  case k_atomic_max:
  case k_atomic_exchange:
  case k_atomic_compare_exchange:
  case k_accumulate:
  case k_exact_add:
  case k_exact_load:
  case k_exact_store:
  case k_subgroup_size:
  case k_subgroup_id:
  case k_subgroup_lane:
  case k_subgroup_reduce:
  case k_subgroup_shuffle:
  case k_subgroup_ballot:
  case k_call: assert(false); break;  // glsl helper
  case k_add:
  case k_sub:
  case k_mul:
  case k_mulhi:
  case k_div:
  case k_mod:
  case k_min:
  case k_max:
  case k_pow:
  case k_fma:
  case k_neg:
  case k_abs:
  case k_sign:
  case k_floor:
  case k_sqrt:
  case k_rsqrt:
  case k_exp:
  case k_log:
  case k_and:
  case k_or:
  case k_xor:
  case k_not:
  case k_shl:
  case k_shr:
  case k_lt:
  case k_le:
  case k_gt:
  case k_ge:
  case k_eq:
  case k_ne:
  case k_select:
  case k_cast:
  case k_bitcast:
  case k_vec:
  case k_extract: define(op, expression(op)); break;
  }
  main_.op = nullptr;
}

}  // namespace

Result<GlslText> printGlsl(const Item& kernel) {
  if (kernel.kind != ItemKind::kernel)
    return failAt(kernel.loc, fmt::format("@{} is no kernel", kernel.name));
  return GlslPrinter(kernel).print();
}

}  // namespace tg
