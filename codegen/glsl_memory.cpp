// SPDX-License-Identifier: Apache-2.0
// Kernel to GLSL: parameters, loads, stores, atomics, exact sums.
#include "codegen/glsl_printer.h"

namespace tg {

/// Whether a parameter is declared `coherent`: invocations read after a barrier what others wrote, which must leave
/// the writer's cache.
bool GlslPrinter::coherent(const Value& param) const {
  return (survey_.barriers || survey_.reductions) && survey_.loaded.contains(&param) &&
         survey_.written.contains(&param);
}

bool GlslPrinter::anyCoherent() const {
  return std::ranges::any_of(kernel_.body.args, [&](const auto& param) { return coherent(*param); });
}

/// Whether a buffer has two 16-bit reals in a word: in shared memory, and in storage without 16-bit access.
bool GlslPrinter::inWords(const Value& buffer) const {
  const bool parameter = buffer.def == nullptr;
  return isNarrow(buffer.type.dtype) && !(parameter && survey_.storesHalves);
}

/// The declared type of a buffer's elements. f32 that atomics work on are declared as bits. So are 16-bit reals,
/// because GLSL leaves the rounding of a conversion to the device; 16-bit integers exist only in storage.
std::string GlslPrinter::storedType(const Value& buffer) const {
  const int lanes = buffer.type.lanes;
  if (!isNarrow(buffer.type.dtype))
    return survey_.floatBits.contains(&buffer) ? "uint" : glslType(elementType(buffer.type));
  if (inWords(buffer)) return glslType(Type::scalar(DType::u32, std::max(1, lanes / 2)));
  return lanes == 1 ? "uint16_t" : fmt::format("u16vec{}", lanes);
}

void GlslPrinter::parameter(const Value& param, int binding) {
  const std::string& name = names_.of(&param);
  if (param.type.texel) {
    const char* prefix = param.type.dtype == DType::u32 ? "u" : param.type.dtype == DType::i32 ? "i" : "";
    return shared_.add("layout(set = 0, binding = {}) uniform {}textureBuffer {};", binding, prefix, name);
  }
  const bool byHalves = inWords(param) && param.type.lanes == 1;  // written by atomics, which read too
  std::string access = param.type.mode == BufMode::in                 ? "readonly "
                       : param.type.mode == BufMode::out && !byHalves ? "writeonly "
                       : coherent(param)                              ? "coherent "
                                                                      : "";
  shared_.add("layout(std430, set = 0, binding = {}) {}buffer B{} {{ {} {}[]; }};", binding, access, binding,
              storedType(param), name);
}

void GlslPrinter::declare(const Op& op) {
  GlslLines& lines = op.code == Opcode::k_shared ? shared_ : main_;
  const Op* before = lines.op;
  lines.op = &op;
  lines.add("{}{} {}[{}];", op.code == Opcode::k_shared ? "shared " : "", storedType(*op.result()),
            names_.of(op.result()), op.result()->type.elements());
  lines.op = before;
}

/// The row-major index of an element, or of the first one if indices of inner axes are left out. Strides are
/// literals, because only axis 0 may be open.
std::string GlslPrinter::flatIndex(const Operand& element) {
  const Type& buffer = element.value->type;
  if (buffer.rank() == 1 && !element.items[0].isLiteral()) return names_.of(element.items[0].value);
  int given = static_cast<int>(element.items.size());
  int64_t constant = 0, stride = 1;
  for (int axis = given; axis < buffer.rank(); ++axis) stride *= buffer.shape[axis];
  std::string terms;
  for (int axis = given - 1; axis >= 0; stride *= buffer.shape[axis--]) {
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

/// The helper that gives the "Bits" or the "Value" of a 16-bit real, for so many lanes.
std::string GlslPrinter::narrowing(DType dtype, const char* gives, int lanes) {
  const DType takes = gives == std::string_view("Bits") ? DType::f32 : DType::u32;
  return helpers_.need(fmt::format("{}{}", dtype == DType::f16 ? "Half" : "Bf16", gives),
                       Type::scalar(takes, lanes));
}

/// The helper that packs two or four floats into words of 16-bit reals, or unpacks them.
std::string GlslPrinter::packing(const std::string& kind, const Type& element) {
  const bool packs = kind == "Pack", half = element.dtype == DType::f16;
  const int lanes = element.lanes;
  const Type floats = Type::scalar(DType::f32, lanes), words = Type::scalar(DType::u32, lanes / 2);
  const std::string name = fmt::format("tg{}{}{}", kind, half ? "Halves" : "Bf16s", lanes);
  auto pair = [&](const std::string& x) {
    if (survey_.matrices && half) return fmt::format("{}packHalf2x16({})", packs ? "" : "un", x);
    if (packs) return fmt::format("{0}({1}.x) | {0}({1}.y) << 16", narrowing(element.dtype, "Bits"), x);
    return fmt::format("vec2({0}({1} & 0xffffu), {0}({1} >> 16))", narrowing(element.dtype, "Value"), x);
  };
  std::string body = lanes == 2 ? pair("x")
                     : packs    ? fmt::format("uvec2({}, {})", pair("x.xy"), pair("x.zw"))
                                : fmt::format("vec4({}, {})", pair("x.x"), pair("x.y"));
  functions_[name] = fmt::format("{} {}({} x) {{ return {}; }}\n", glslType(packs ? words : floats), name,
                                 glslType(packs ? floats : words), body);
  return name;
}

/// The word that holds a 16-bit real beside its neighbour, and the number of bits to shift by.
GlslPrinter::Half GlslPrinter::halfOf(const Operand& element) {
  const std::string at = fmt::format("uint({})", flatIndex(element));
  return {fmt::format("{}[{} >> 1]", names_.of(element.value), at), fmt::format("({} & 1u) * 16u", at)};
}

/// The expression for the value of an element.
std::string GlslPrinter::read(const Operand& element) {
  const Value& buffer = *element.value;
  const int lanes = buffer.type.lanes;
  if (inWords(buffer) && lanes == 1) {
    const Half half = halfOf(element);
    return fmt::format("{}({} >> {} & 0xffffu)", narrowing(buffer.type.dtype, "Value"), half.word,
                       half.shift);
  }
  if (inWords(buffer)) return fmt::format("{}({})", packing("Unpack", buffer.type), place(element));
  if (isNarrow(buffer.type.dtype))
    return fmt::format("{}({}({}))", narrowing(buffer.type.dtype, "Value", lanes),
                       glslType(Type::scalar(DType::u32, lanes)), place(element));
  return survey_.floatBits.contains(&buffer) ? fmt::format("uintBitsToFloat({})", place(element))
                                             : place(element);
}

/// The statements that store a value in an element.
void GlslPrinter::write(const Operand& element, const std::string& value) {
  const Value& buffer = *element.value;
  std::string stored = value;
  if (inWords(buffer) && buffer.type.lanes == 1) {
    // Another invocation may write the other half at the same time, so each changes its own bits atomically.
    const Half half = halfOf(element);
    main_.add("atomicAnd({}, ~(0xffffu << {}));", half.word, half.shift);
    main_.add("atomicOr({}, {}({}) << {});", half.word, narrowing(buffer.type.dtype, "Bits"), value,
              half.shift);
    return;
  }
  if (inWords(buffer))
    stored = fmt::format("{}({})", packing("Pack", buffer.type), value);
  else if (isNarrow(buffer.type.dtype))
    stored = fmt::format("{}({}({}))", storedType(buffer),
                         narrowing(buffer.type.dtype, "Bits", buffer.type.lanes), value);
  else if (survey_.floatBits.contains(&buffer))
    stored = fmt::format("floatBitsToUint({})", value);
  main_.add("{} = {};", place(element), stored);
}

std::string GlslPrinter::load(const Op& op) {
  const Operand& element = op.operands[0];
  if (!element.value->type.texel) return read(element);
  const char* lanes = op.result()->type.lanes == 1 ? ".x" : op.result()->type.lanes == 2 ? ".xy" : "";
  return fmt::format("texelFetch({}, int({})){}", names_.of(element.value), flatIndex(element), lanes);
}

void GlslPrinter::store(const Op& op) {
  const Operand& element = op.operands[1];
  write(element, operandText(op.operands[0], elementType(element.value->type)));
}

void GlslPrinter::accumulate(const Op& op) {
  const Operand& element = op.operands[1];
  Type type = elementType(element.value->type);
  std::string sum = names_.unique("sum");
  main_.add("{} {} = {} + {};", glslVariable(type), sum, read(element), operandText(op.operands[0], type));
  write(element, sum);
}

/// A statement that calls an atomic function and, if the op has a result, keeps the old value.
void GlslPrinter::keepOld(const Op& op, const std::string& call, bool bits) {
  if (op.results.empty())
    main_.add("{};", call);
  else
    define(op, bits ? fmt::format("uintBitsToFloat({})", call) : call);
}

void GlslPrinter::atomic(const Op& op, std::string_view function) {
  const Operand& element = op.operands[1];
  std::string value = operandText(op.operands[0], elementType(element.value->type));
  bool bits = survey_.floatBits.contains(element.value);
  if (bits) value = fmt::format("floatBitsToUint({})", value);
  keepOld(op, fmt::format("{}({}, {})", function, place(element), value), bits);
}

void GlslPrinter::compareExchange(const Op& op) {
  const Operand& element = op.operands[2];
  Type type = elementType(element.value->type);
  std::string expected = operandText(op.operands[0], type), value = operandText(op.operands[1], type);
  bool bits = survey_.floatBits.contains(element.value);
  if (bits) {
    expected = fmt::format("floatBitsToUint({})", expected);
    value = fmt::format("floatBitsToUint({})", value);
  }
  keepOld(op, fmt::format("atomicCompSwap({}, {}, {})", place(element), expected, value), bits);
}

void GlslPrinter::atomicAdd(const Op& op) {
  if (survey_.floatBits.contains(op.operands[1].value)) return atomicAddLoop(op);
  atomic(op, "atomicAdd");
}

/// The addition as a compare-and-swap loop over the bits.
void GlslPrinter::atomicAddLoop(const Op& op) {
  std::string place = this->place(op.operands[1]);
  std::string seen = names_.unique("seen"), sum = names_.unique("sum"), was = names_.unique("was");
  if (!op.results.empty()) main_.add("precise float {};", names_.of(op.result()));
  main_.add("for (uint {} = {};;) {{", seen, place);
  ++main_.depth;
  if (!op.results.empty()) main_.add("{} = uintBitsToFloat({});", names_.of(op.result()), seen);
  main_.add("precise float {} = uintBitsToFloat({}) + {};", sum, seen,
            operandText(op.operands[0], Type::scalar(DType::f32)));
  main_.add("uint {} = atomicCompSwap({}, {}, floatBitsToUint({}));", was, place, seen, sum);
  main_.add("if ({} == {}) break;", was, seen);
  main_.add("{} = {};", seen, was);
  --main_.depth;
  main_.add("}}");
}

/// The extent of an axis; that of an open axis is computed from the buffer's length.
std::string GlslPrinter::extent(const Op& op) {
  const Value& buffer = *op.in(0);
  int64_t axis = op.operands[1].integer;
  if (buffer.type.shape[static_cast<int>(axis)] != Shape::kDynamic)
    return fmt::format("{}u", buffer.type.shape[static_cast<int>(axis)]);
  const std::string& name = names_.of(&buffer);
  std::string all =
      buffer.type.texel ? fmt::format("uint(textureSize({}))", name) : fmt::format("uint({}.length())", name);
  if (inWords(buffer) && buffer.type.lanes == 1) all = fmt::format("({} * 2u)", all);
  int64_t row = 1;
  for (int other = 1; other < buffer.type.rank(); ++other) row *= buffer.type.shape[other];
  return row == 1 ? all : fmt::format("{} / {}u", all, row);
}

/// The call of an exact-sum function of one buffer.
std::string GlslPrinter::exact(const Op& op) {
  const char* kind = op.code == Opcode::k_exact_add    ? "Add"
                     : op.code == Opcode::k_exact_load ? "Load"
                                                       : "Store";
  const Operand& element = op.operands.back();
  const std::string& buffer = names_.of(element.value);
  std::string function = fmt::format("tgExact{}{}{}", kind, buffer[0] == '_' ? "Of" : "_", buffer);
  helpers_.need(kind == std::string_view("Load") ? "ExactRound" : "ExactTerm", Type::scalar(DType::f32));
  functions_[function] = exactFunction(kind, function, buffer);
  std::string first = flatIndex(element);
  if (first.find_first_not_of("0123456789") == std::string::npos) first += "u";
  if (op.code == Opcode::k_exact_load) return fmt::format("{}({})", function, first);
  return fmt::format("{}({}, {})", function, first, operandText(op.operands[0], Type::scalar(DType::f32)));
}

}  // namespace tg
