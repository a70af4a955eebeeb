// SPDX-License-Identifier: Apache-2.0
// Each arithmetic op has a row in ir/kernel/semantics.def, whose last column is a call of a member of Expression
// below. Vectors need other forms than scalars in places: GLSL compares and selects them by functions.
#include "codegen/glsl_expr.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "ir/text.h"

namespace tg {

std::string glslType(const Type& scalar) {
  struct Names {
    const char *one, *many;
  };
  Names names = scalar.dtype == DType::i32   ? Names{"int", "ivec"}
                : scalar.dtype == DType::u32 ? Names{"uint", "uvec"}
                : scalar.dtype == DType::i1  ? Names{"bool", "bvec"}
                                             : Names{"float", "vec"};
  return scalar.lanes == 1 ? names.one : fmt::format("{}{}", names.many, scalar.lanes);
}

static std::string floatLiteral(double value) {
  float rounded = static_cast<float>(value);
  bool plain = std::isfinite(rounded) && !(rounded == 0 && std::signbit(rounded));
  if (!plain) return fmt::format("uintBitsToFloat({:#010x}u)", std::bit_cast<uint32_t>(rounded));
  std::string text = formatF32(rounded);
  return rounded < 0 ? "(" + text + ")" : text;
}

std::string glslLiteral(const Operand& literal, DType dtype) {
  switch (info(dtype).family) {
  case DTypeFamily::real: return floatLiteral(literal.number());
  case DTypeFamily::uint: return fmt::format("{}u", static_cast<uint32_t>(literal.integer));
  case DTypeFamily::flag: return literal.number() != 0 ? "true" : "false";
  case DTypeFamily::sint: break;
  }
  int32_t value = static_cast<int32_t>(literal.integer);
  if (value == INT32_MIN) return "int(0x80000000u)";  // its absolute value is no int
  return value < 0 ? fmt::format("({})", value) : fmt::format("{}", value);
}

char glslLane(int64_t lane) { return "xyzw"[lane]; }

namespace {

class Expression {
 public:
  Expression(const Op& op, const std::vector<GlslOperand>& operands, GlslHelpers& helpers)
      : op_(op), operands_(operands), helpers_(helpers),
        type_(op.results.empty()              ? Type::scalar(DType::f32)
              : op.result()->type.isCoopmat() ? Type::scalar(op.result()->type.dtype)
                                              : op.result()->type),
        lanes_(type_.lanes) {}

  std::string print();

 private:
  const std::string& text(int index) const { return operands_[index].text; }
  const Type& type(int index) const { return operands_[index].type; }
  DType dtype() const { return operands_[0].type.dtype; }
  /// Operand `index`, widened to the lanes of the result.
  std::string wide(int index) const {
    const Type& own = type(index);
    if (own.lanes == lanes_) return text(index);
    return fmt::format("{}({})", glslType(Type::scalar(own.dtype, lanes_)), text(index));
  }
  /// One lane of operand `index`.
  std::string lane(int index, int at) const {
    return type(index).lanes == 1 ? text(index) : fmt::format("{}.{}", text(index), glslLane(at));
  }
  std::string infix(const char* sign) const {
    return fmt::format("{} {} {}", lanes_ == 1 ? text(0) : wide(0), sign, lanes_ == 1 ? text(1) : wide(1));
  }
  std::string call(std::string_view function) const;
  std::string compare(const char* sign, const char* function) const {
    return lanes_ == 1 ? infix(sign) : call(function);
  }
  bool isZero(int index) const {
    const Operand* literal = operands_[index].literal;
    return literal && isFloat(type(index).dtype) && literal->number() == 0;
  }
  /// A helper of kind `kind` over operand `index`, for an operation in which operand `zero` is zero; a literal gives
  /// its sign.
  std::string ofZero(const char* kind, int zero, int index) {
    const bool negative = isZero(zero) && std::signbit(operands_[zero].literal->number());
    return fmt::format("{}{}({})", negative ? "-" : "", helpers_.need(kind, type_), wide(index));
  }
  /// `other`; or `ofZero(kind, zero, index)` and `rest`, if a driver may compute operand `zero` ahead and find that it
  /// is 0.
  std::string unlessZero(int zero, const char* kind, int index, const std::string& other,
                         const std::string& rest = "") {
    if (!operands_[zero].foreseen || operands_[zero].literal || !isFloat(dtype())) return other;
    const std::string then = ofZero(kind, zero, index) + rest;
    if (lanes_ == 1) return fmt::format("{} != 0.0 ? {} : {}", text(zero), other, then);
    return fmt::format("mix({}, {}, notEqual({}, {}(0.0)))", then, other, wide(zero), glslType(type_));
  }
  /// A call of a helper function over the result's type.
  std::string helper(const char* kind) { return call(helpers_.need(kind, type_)); }
  /// For ops that are no arithmetic, that legalize expands, or that GlslPrinter handles.
  static std::string none() { return {}; }
  std::string times();
  std::string fused();
  std::string divide(const char* kind, const char* sign);
  std::string eachLane(const char* kind);
  std::string minMax(const char* kind);
  std::string sign() const;
  std::string logic(const char* word, const char* bits);
  std::string invert() const;
  std::string shift(const char* sign) const;
  std::string select() const;
  std::string cast();
  std::string bitcast() const;
  std::string bitTest(const char* sign, const char* function) const;
  std::string unsignedText() const;
  std::string toResult(const char* function, const std::string& argument) const;
  std::string countTrailing() const;
  std::string rotate(const char* there, const char* back) const;

  const Op& op_;
  const std::vector<GlslOperand>& operands_;
  GlslHelpers& helpers_;
  Type type_;  ///< of the result, or of an element of a matrix
  int lanes_;
};

std::string Expression::call(std::string_view function) const {
  std::string out = fmt::format("{}(", function);
  for (size_t index = 0; index < operands_.size(); ++index)
    out += (index ? ", " : "") + wide(static_cast<int>(index));
  return out + ")";
}

/// Some drivers fold x·0, 0/x and x/0 to 0 whatever x is, which is wrong for infinities and NaN. They also do so if
/// they compute the 0 themselves, from the index of a loop that they unroll, say.
std::string Expression::times() {
  for (int index : {0, 1})
    if (isZero(index)) return ofZero("ZeroTimes", index, 1 - index);
  return unlessZero(0, "ZeroTimes", 1, unlessZero(1, "ZeroTimes", 0, infix("*")));
}

std::string Expression::fused() {
  for (int index : {0, 1})
    if (isZero(index)) return fmt::format("{} + {}", ofZero("ZeroTimes", index, 1 - index), wide(2));
  const std::string rest = " + " + wide(2);
  return unlessZero(0, "ZeroTimes", 1, unlessZero(1, "ZeroTimes", 0, call("fma"), rest), rest);
}

std::string Expression::divide(const char* kind, const char* sign) {
  if (isZero(0)) return ofZero("ZeroOver", 0, 1);
  if (isZero(1)) return ofZero("OverZero", 1, 0);
  const Operand* by = operands_[1].literal;
  bool harmless = by && by->number() != 0 && (dtype() == DType::u32 || (by->number() > 0 && *sign == '/'));
  if (isFloat(dtype())) return unlessZero(1, "OverZero", 0, unlessZero(0, "ZeroOver", 1, infix(sign)));
  return harmless ? infix(sign) : eachLane(kind);
}

/// A helper over two scalars, called lane by lane.
std::string Expression::eachLane(const char* kind) {
  const std::string function = helpers_.need(kind, Type::scalar(dtype()));
  if (lanes_ == 1) return call(function);
  std::string out = glslType(type_) + "(";
  for (int at = 0; at < lanes_; ++at)
    out += fmt::format("{}{}({}, {})", at ? ", " : "", function, lane(0, at), lane(1, at));
  return out + ")";
}

std::string Expression::minMax(const char* kind) {
  bool min = kind[1] == 'i';
  if (!isFloat(dtype())) return call(min ? "min" : "max");
  const Operand* limit = operands_[1].literal;
  if (lanes_ == 1 && limit && !std::isnan(limit->number()))
    return fmt::format("{} {} {} ? {} : {}", text(0), min ? ">" : "<", text(1), text(1), text(0));
  return call(helpers_.need(kind, type_));
}

std::string Expression::sign() const {
  if (dtype() == DType::u32) return fmt::format("min({}, 1u)", text(0));
  if (dtype() == DType::i32) return call("sign");
  if (lanes_ == 1) return fmt::format("float({0} > 0.0) - float({0} < 0.0)", text(0));
  return fmt::format("{0}(greaterThan({1}, {0}(0.0))) - {0}(lessThan({1}, {0}(0.0)))", glslType(type(0)),
                     text(0));
}

std::string Expression::logic(const char* word, const char* bits) {
  if (dtype() != DType::i1) return infix(bits);
  if (lanes_ == 1) return infix(word);
  switch (*word) {
  case '&': return fmt::format("mix({0}, {1}, {0})", wide(0), wide(1));
  case '|': return fmt::format("mix({1}, {0}, {0})", wide(0), wide(1));
  default: return call("notEqual");
  }
}

std::string Expression::invert() const {
  if (dtype() != DType::i1) return "~" + text(0);
  return lanes_ == 1 ? "!" + text(0) : call("not");
}

std::string Expression::shift(const char* sign) const {
  const char* suffix = type(1).dtype == DType::u32 ? "u" : "";
  if (const Operand* count = operands_[1].literal)
    return fmt::format("{} {} {}{}", wide(0), sign, count->integer & 31, suffix);
  return fmt::format("{} {} ({} & 31{})", wide(0), sign, text(1), suffix);
}

std::string Expression::select() const {
  if (type(0).lanes == 1) return fmt::format("{} ? {} : {}", text(0), wide(1), wide(2));
  return fmt::format("mix({}, {}, {})", wide(2), wide(1), text(0));
}

std::string Expression::cast() {
  DType from = dtype(), to = type_.dtype;
  if (from == to) return text(0);
  if (isFloat(from) && to != DType::i1)
    return call(helpers_.need(to == DType::i32 ? "ToInt" : "ToUint", type(0)));
  if (to != DType::i1) return fmt::format("{}({})", glslType(type_), text(0));
  std::string zero = isFloat(from) ? "0.0" : from == DType::u32 ? "0u" : "0";
  if (lanes_ == 1) return fmt::format("{} != {}", text(0), zero);
  return fmt::format("notEqual({}, {}({}))", text(0), glslType(type(0)), zero);
}

std::string Expression::bitcast() const {
  DType from = dtype(), to = type_.dtype;
  if (from == to) return text(0);
  if (isFloat(from)) return call(to == DType::i32 ? "floatBitsToInt" : "floatBitsToUint");
  if (isFloat(to)) return call(from == DType::i32 ? "intBitsToFloat" : "uintBitsToFloat");
  return fmt::format("{}({})", glslType(type_), text(0));
}

/// Compares |x| with infinity by their bits, since a driver's compiler may assume that isnan and isinf are false.
std::string Expression::bitTest(const char* sign, const char* function) const {
  std::string bits = fmt::format("floatBitsToUint({}) & 0x7fffffffu", wide(0));
  if (lanes_ == 1) return fmt::format("({}) {} 0x7f800000u", bits, sign);
  return fmt::format("{}({}, uvec{}(0x7f800000u))", function, bits, lanes_);
}

std::string Expression::unsignedText() const {
  if (dtype() == DType::u32) return wide(0);
  return fmt::format("{}({})", glslType(Type::scalar(DType::u32, lanes_)), wide(0));
}

/// Calls a built-in function that gives int, and converts to the result's type.
std::string Expression::toResult(const char* function, const std::string& argument) const {
  std::string value = fmt::format("{}({})", function, argument);
  return dtype() == DType::i32 ? value : fmt::format("{}({})", glslType(type_), value);
}

/// findLSB(0) is -1, which as a u32 exceeds 32.
std::string Expression::countTrailing() const {
  Type type = Type::scalar(DType::u32, lanes_);
  std::string count = fmt::format("min({}(findLSB({})), 32u)", glslType(type), wide(0));
  return dtype() == DType::u32 ? count : fmt::format("{}({})", glslType(type_), count);
}

std::string Expression::rotate(const char* there, const char* back) const {
  const std::string x = wide(0), count = wide(1);
  return fmt::format("({0} {2} ({1} & 31u)) | ({0} {3} (-{1} & 31u))", x, count, there, back);
}

std::string Expression::print() {
  using enum KernelOp;
  switch (kernelOp(op_.code)) {
#define LANES(id, types, gives, flags, flops, value, range, glsl) \
  case id:                                                        \
    return glsl;
#define OTHER(...)
#include "ir/kernel/semantics.def"
  case k_constant: return wide(0);
  case k_select: return select();
  case k_cast: return cast();
  case k_bitcast: return bitcast();
  case k_vec: return fmt::format("{}({})", glslType(type_), listText(operands_, &GlslOperand::text));
  case k_extract: return lane(0, static_cast<int>(op_.operands[1].integer));
  default: return none();
  }
}

}  // namespace

std::string glslExpression(const Op& op, const std::vector<GlslOperand>& operands, GlslHelpers& helpers) {
  return Expression(op, operands, helpers).print();
}

}  // namespace tg
