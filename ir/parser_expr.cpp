// SPDX-License-Identifier: Apache-2.0
// Infix expressions in kernels, a shorthand: each operator becomes an op in front of the op that uses its result, or
// a keyword in a grid. Operations on literals alone are evaluated here.
//
//   tgk.store %a[0] * %x[%i + 1], %y[%i]   →   %load = tgk.load %a[0] : f32
//                                              %add = tgk.add %i, 1 : u32
//                                              %load_2 = tgk.load %x[%add] : f32
//                                              %mul = tgk.mul %load, %load_2 : f32
//                                              tgk.store %mul, %y[%i]
#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel/axis_names.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/rewrites.h"
#include "ir/parser_rules.h"
#include "ir/text.h"

namespace tg {

/// An operator: its precedence, as in C, and the op that it becomes.
struct Parser::Infix {
  std::string_view text;
  int precedence;
  Opcode code;
  std::string_view grid;  ///< its keyword in a grid; "" if it cannot stand there
};

const Parser::Infix* Parser::peekInfix() {
  // Operators of two characters come before those that are a prefix of them.
  static constexpr Infix kInfix[] = {
      {"||", 1, Opcode::k_or, ""},     {"&&", 2, Opcode::k_and, ""},    {"==", 6, Opcode::k_eq, ""},
      {"!=", 6, Opcode::k_ne, ""},     {"<=", 7, Opcode::k_le, ""},     {">=", 7, Opcode::k_ge, ""},
      {"<<", 8, Opcode::k_shl, ""},    {">>", 8, Opcode::k_shr, ""},    {"|", 3, Opcode::k_or, ""},
      {"^", 4, Opcode::k_xor, ""},     {"&", 5, Opcode::k_and, ""},     {"<", 7, Opcode::k_lt, ""},
      {">", 7, Opcode::k_gt, ""},      {"+", 9, Opcode::k_add, "add"},  {"-", 9, Opcode::k_sub, "sub"},
      {"*", 10, Opcode::k_mul, "mul"}, {"/", 10, Opcode::k_div, "div"}, {"%", 10, Opcode::k_mod, ""},
  };
  const Token& token = lex_.peek();
  const bool minus = token.kind == Token::Kind::number && token.text.starts_with('-');  // %i -1
  if (token.kind != Token::Kind::punct && !minus) return nullptr;
  if (std::string_view("|&=!<>^+-*/%").find(token.text[0]) == std::string_view::npos) return nullptr;
  for (const Infix& each : kInfix)
    if (lex_.startsWith(each.text)) return &each;
  return nullptr;
}

/// Whether `%a = …` follows, and not `%a == …`.
bool Parser::startsBinding() {
  if (lex_.peek().kind != Token::Kind::value) return false;
  Lexer ahead = lex_;
  ahead.next();
  return ahead.startsWith("=") && !ahead.startsWith("==");
}

Result<Operand> Parser::operandOrExpression(int depth) {
  if (expressions_ == Expressions::none) return operand(depth);
  if (startsBinding()) return binding();
  return expression(depth);
}

Result<Operand> Parser::expression(int depth, int least) {
  if (depth > kMaxNesting) return errorHere("operands are nested too deeply");
  TG_TRY(Operand left, unary(depth));
  for (int terms = 1;; ++terms) {
    const Infix* infix = peekInfix();
    if (!infix || infix->precedence < least) return left;
    // A grid stays an expression, in which each term of a chain nests the ones before it.
    if (expressions_ == Expressions::grid && depth + terms > kMaxNesting)
      return errorHere("operands are nested too deeply");
    const Loc loc = here();
    lex_.rewind(lex_.peek().offset + static_cast<uint32_t>(infix->text.size()));
    if (infix->precedence <= 2) {
      TG_TRY(left, logical(*infix, std::move(left), loc, depth));
      continue;
    }
    TG_TRY(Operand right, expression(depth + 1, infix->precedence + 1));
    TG_TRY(left, combine(*infix, std::move(left), std::move(right), loc));
  }
}

Result<Operand> Parser::unary(int depth) {
  if (depth > kMaxNesting) return errorHere("operands are nested too deeply");
  const Loc loc = here();
  for (const auto& [sign, code] :
       {std::pair{"-", Opcode::k_neg}, {"!", Opcode::k_not}, {"~", Opcode::k_not}}) {
    if (!accept(sign)) continue;
    TG_TRY(Operand of, unary(depth + 1));
    if (of.isLiteral() && *sign == '-')
      return of.isInteger && of.integer != 0 && of.integer != INT64_MIN ? Operand::literal(-of.integer)
                                                                        : Operand::literal(-of.number());
    if (of.isLiteral() && *sign == '!') return Operand::literal(int64_t{of.number() == 0});
    if (of.isLiteral() && of.isInteger) return Operand::literal(~of.integer);
    if (expressions_ == Expressions::grid) return failAt(loc, "a grid has no operator {}", sign);
    if (*sign == '!' && !of.isLiteral() && of.value->type.dtype != DType::i1)
      return failAt(loc, "! takes bool, not {}", of.value->type.str());
    return emit(code, {std::move(of)}, loc);
  }
  return primary(depth);
}

Result<Operand> Parser::primary(int depth) {
  if (accept("(")) {
    TG_TRY(Operand inner, expression(depth + 1));
    TG_CHECK(expect(")"));
    return inner;
  }
  const Token& token = lex_.peek();
  if (token.kind == Token::Kind::value) return valueTerm(depth);
  const bool number =
      token.isWord("inf") || token.isWord("nan") || token.isWord("true") || token.isWord("false");
  if (token.kind == Token::Kind::word && !number) return wordTerm(depth);
  if (number || token.kind == Token::Kind::number) return literalToken();
  return expected("an operand");
}

/// `%v`, `%b[%i, 0]`, or one lane of a vector, `%v.y`.
Result<Operand> Parser::valueTerm(int depth) {
  const Token token = lex_.peek();
  const Loc loc = here();
  size_t dot = token.text.size() < 2 ? 0 : token.text.size() - 2;
  size_t lane =
      token.text.empty() ? std::string_view::npos : std::string_view("xyzw").find(token.text.back());
  if (dot && token.text[dot] == '.' && lane != std::string_view::npos && !scope_.contains(token.text))
    if (auto vector = scope_.find(token.text.substr(0, dot)); vector != scope_.end()) {
      lex_.next();
      return emit(Opcode::k_extract,
                  {Operand::of(vector->second), Operand::literal(static_cast<int64_t>(lane))}, loc);
    }
  TG_TRY(Value * value, lookup());
  if (!accept("[")) return Operand::of(value);
  if (expressions_ == Expressions::grid)
    return failAt(loc, "a grid can use extents, but no elements of buffers");
  TG_TRY(OperandList indices, operandsUntil("]", depth));
  return emit(Opcode::k_load, {Operand::element(value, std::move(indices))}, loc);
}

/// A constant, the extent of a named axis, or a function call.
Result<Operand> Parser::wordTerm(int depth) {
  const Loc loc = here();
  const std::string word(lex_.next().text);
  if (accept("(")) {
    TG_TRY(OperandList args, operandsUntil(")", depth));
    return function(word, std::move(args), loc);
  }
  if (const NamedConstant* known = constant(word))
    return known->value.isInteger ? Operand::literal(known->value.integer)
                                  : Operand::literal(known->value.real);
  if (auto extent = axisExtent(word)) return *extent;
  return failAt(loc, "'{}' is neither a constant nor an extent here", word.substr(0, 60));
}

bool Parser::namesValue(std::string_view word) const {
  if (constant(word)) return true;
  if (!item_) return false;
  for (const auto& arg : item_->body.args)
    for (const std::string& name : axisNames(*arg))
      if (name == word) return true;
  return false;
}

/// Whether an operand begins here that is more than a value or literal: a parenthesis, a sign, a name, a call.
bool Parser::startsExpression() {
  if (expressions_ == Expressions::none) return false;
  const Token& token = lex_.peek();
  if (token.is("(") || token.is("-") || token.is("!") || token.is("~")) return true;
  if (token.kind != Token::Kind::word || token.text.find('.') != std::string_view::npos) return false;
  return namesValue(token.text) || (isFunction(token.text) && peekSecond().is("("));
}

/// The extent of a named axis: `dim(%x, 0)` in a grid, else a tgk.dim at the top of the kernel, one for each axis.
std::optional<Operand> Parser::axisExtent(std::string_view name) {
  if (!item_) return {};
  for (const auto& [known, value] : extents_)
    if (known == name && expressions_ == Expressions::ops) return Operand::of(value);
  for (const auto& arg : item_->body.args) {
    const std::vector<std::string> names = axisNames(*arg);
    auto at = std::ranges::find(names, name);
    if (at == names.end()) continue;
    OperandList place{Operand::of(arg.get()), Operand::literal(int64_t{at - names.begin()})};
    if (expressions_ == Expressions::grid) return Operand::keyword("dim", std::move(place));
    auto op = Op::create(Opcode::k_dim, arg->loc, std::move(place));
    Value* value = unnamed(op->addResult(Type::scalar(DType::u32)), name);
    OpList& ops = item_->body.ops;  // extents come first in the body, in the order of their first use
    ops.insert(extents_.empty() ? ops.front() : extents_.back().second->def->next(), std::move(op));
    extents_.emplace_back(name, value);
    return Operand::of(value);
  }
  return {};
}

// ---------------------------------------------------------------------------------- operators

/// Evaluates an operation on two integers; nothing if it is undefined or overflows.
static std::optional<int64_t> folded(Opcode code, int64_t x, int64_t y) {
  __int128 a = x, b = y, out = 0;
  switch (code) {
  case Opcode::k_add: out = a + b; break;
  case Opcode::k_sub: out = a - b; break;
  case Opcode::k_mul: out = a * b; break;
  case Opcode::k_div:
    if (y == 0) return {};
    out = a / b;
    break;
  case Opcode::k_mod:
    if (y == 0) return {};
    out = a % b;
    break;
  case Opcode::k_min: out = std::min(a, b); break;
  case Opcode::k_max: out = std::max(a, b); break;
  case Opcode::k_and: out = a & b; break;
  case Opcode::k_or: out = a | b; break;
  case Opcode::k_xor: out = a ^ b; break;
  case Opcode::k_shl: out = a << (y & 31); break;
  case Opcode::k_shr: out = a >> (y & 31); break;
  case Opcode::k_lt: out = a < b; break;
  case Opcode::k_le: out = a <= b; break;
  case Opcode::k_gt: out = a > b; break;
  case Opcode::k_ge: out = a >= b; break;
  case Opcode::k_eq: out = a == b; break;
  case Opcode::k_ne: out = a != b; break;
  default: return {};
  }
  if (out < INT64_MIN || out > INT64_MAX) return {};
  return static_cast<int64_t>(out);
}

/// Evaluates an operation on two reals: in f64, then rounded to f32, which equals rounding the exact value.
static std::optional<Operand> folded(Opcode code, double x, double y) {
  auto real = [](double value) { return Operand::literal(static_cast<double>(static_cast<float>(value))); };
  switch (code) {
  case Opcode::k_add: return real(x + y);
  case Opcode::k_sub: return real(x - y);
  case Opcode::k_mul: return real(x * y);
  case Opcode::k_div: return real(x / y);
  case Opcode::k_min: return real(std::min(x, y));
  case Opcode::k_max: return real(std::max(x, y));
  case Opcode::k_lt: return Operand::literal(int64_t{x < y});
  case Opcode::k_le: return Operand::literal(int64_t{x <= y});
  case Opcode::k_gt: return Operand::literal(int64_t{x > y});
  case Opcode::k_ge: return Operand::literal(int64_t{x >= y});
  case Opcode::k_eq: return Operand::literal(int64_t{x == y});
  case Opcode::k_ne: return Operand::literal(int64_t{x != y});
  default: return {};
  }
}

static std::optional<Operand> folded(Opcode code, const Operand& x, const Operand& y) {
  if (!x.isInteger || !y.isInteger) return folded(code, x.number(), y.number());
  if (auto value = folded(code, x.integer, y.integer)) return Operand::literal(*value);
  return {};
}

Result<Operand> Parser::combine(const Infix& infix, Operand left, Operand right, const Loc& loc) {
  if (left.isLiteral() && right.isLiteral()) {
    if (auto value = folded(infix.code, left, right)) return *value;
    return failAt(loc, "{} {} {} has no value", left.number(), infix.text, right.number());
  }
  const Value* typed = left.isLiteral() ? right.value : left.value;
  const bool differ = infix.code == Opcode::k_ne, equal = infix.code == Opcode::k_eq;
  if (expressions_ == Expressions::ops && (differ || equal) && typed->type.dtype == DType::i1) {
    TG_TRY(Operand other, emit(Opcode::k_xor, {std::move(left), std::move(right)}, loc));
    return differ ? other : emit(Opcode::k_not, {std::move(other)}, loc);
  }
  if (expressions_ == Expressions::ops) return emit(infix.code, {std::move(left), std::move(right)}, loc);
  if (infix.grid.empty())
    return failAt(loc, "a grid has no operator {}; it has + - * / min max ceildiv", infix.text);
  return Operand::keyword(std::string(infix.grid), {std::move(left), std::move(right)});
}

/// `&&` and `||` on bool. A right side that reads memory is evaluated only if the left side does not decide, as in C:
/// `%i < N && %x[%i] > 0.0` does not read beyond the end.
Result<Operand> Parser::logical(const Infix& infix, Operand left, const Loc& loc, int depth) {
  if (expressions_ == Expressions::grid) return failAt(loc, "a grid has no operator {}", infix.text);
  auto side = std::make_unique<Block>();
  Block* outer = std::exchange(current_, side.get());
  TG_TRY(Operand right, expression(depth + 1, infix.precedence + 1));
  current_ = outer;
  for (const Operand* each : {&left, &right})
    if (!each->isLiteral() && each->value->type != Type::scalar(DType::i1))
      return failAt(loc, "{} takes bool, not {}", infix.text, each->value->type.str());
  const bool reads = anyOp(*side, [](const Op& op) { return op.code == Opcode::k_load; });
  if (!reads || left.isLiteral()) {
    current_->ops.append(std::move(side->ops));
    if (left.isLiteral()) return (left.number() != 0) == (infix.code == Opcode::k_and) ? right : left;
    return emit(infix.code, {std::move(left), std::move(right)}, loc);
  }
  const bool both = infix.code == Opcode::k_and;
  auto settled = std::make_unique<Block>();
  for (auto [block, value] :
       {std::pair{side.get(), &right}, {settled.get(), static_cast<Operand*>(nullptr)}}) {
    block->ops.push_back(
        Op::create(Opcode::k_yield, loc, {value ? *value : Operand::literal(int64_t{!both})}));
  }
  TG_TRY(Operand out, emit(Opcode::k_if, {std::move(left)}, loc, Type::scalar(DType::i1)));
  Op& branch = *current_->ops.back();
  branch.regions.push_back(std::move(both ? side : settled));
  branch.regions.push_back(std::move(both ? settled : side));
  return out;
}

// ---------------------------------------------------------------------------------- functions

static const OpInfo* rowOf(std::string_view function) {
  const OpInfo* row = findOp(fmt::format("tgk.{}", function));
  if (!row || row->regions || row->results.variadic || row->results.count != 1 || row->results.optional)
    return nullptr;
  for (const table::Slot& slot : row->slots)
    if (slot.kind != table::SlotKind::value && slot.kind != table::SlotKind::literal) return nullptr;
  const bool free = row->code == Opcode::k_cast || row->code == Opcode::k_bitcast ||
                    row->code == Opcode::k_shared || row->code == Opcode::k_local;
  return free ? nullptr : row;  // the types of these ops do not follow from their operands
}

static constexpr std::string_view kShorthands[] = {
    "clamp", "fract", "dot", "ceildiv", "workgroup_size", "f32", "i32", "u32", "bool", "vec2", "vec4"};

bool Parser::isShorthand(std::string_view word) {
  return std::ranges::find(kShorthands, word) != std::end(kShorthands);
}

bool Parser::isFunction(std::string_view word) { return isShorthand(word) || rowOf(word); }

Result<Operand> Parser::function(std::string_view word, OperandList args, const Loc& loc) {
  if (expressions_ == Expressions::grid) {
    if (word == "workgroup_size") return shorthand(word, args, loc);
    return Operand::keyword(std::string(word), std::move(args));
  }
  if (isShorthand(word)) return shorthand(word, args, loc);
  const OpInfo* row = rowOf(word);
  if (!row) return unknownOp(loc, fmt::format("tgk.{}", word));
  if (static_cast<int>(args.size()) != row->slots.size())
    return failAt(loc, "{} takes {}, not {}", word, countText(row->slots.size(), "operand"), args.size());
  if (args.size() == 2 && args[0].isLiteral() && args[1].isLiteral())
    if (auto value = folded(row->code, args[0], args[1])) return *value;
  return emit(row->code, std::move(args), loc);
}

/// Functions that stand for a few ops.
Result<Operand> Parser::shorthand(std::string_view word, const OperandList& args, const Loc& loc) {
  const int lanes = word == "vec2" ? 2 : word == "vec4" ? 4 : 0;
  const size_t wanted = word == "clamp"                      ? 3
                        : word == "dot" || word == "ceildiv" ? 2
                        : lanes && args.size() != 1          ? lanes
                                                             : 1;
  if (args.size() != wanted)
    return failAt(loc, "{} takes {}, not {}", word, countText(wanted, "operand"), args.size());
  if (word == "workgroup_size") {
    if (!args[0].isLiteral() || !args[0].isInteger || args[0].integer < 0 || args[0].integer > 2)
      return failAt(loc, "workgroup_size takes an axis, 0, 1 or 2");
    if (!item_ || item_->kind != ItemKind::kernel)
      return failAt(loc, "a func has no workgroup; pass the value as an argument");
    return Operand::literal(item_->workgroup[static_cast<size_t>(args[0].integer)]);
  }
  auto call = [&](std::string_view name, Operand a, Operand b) {
    return function(name, {std::move(a), std::move(b)}, loc);
  };
  if (word == "clamp") {
    TG_TRY(Operand low, call("max", args[0], args[1]));
    return call("min", std::move(low), args[2]);
  }
  if (word == "fract") {
    TG_TRY(Operand whole, emit(Opcode::k_floor, {args[0]}, loc));
    return emit(Opcode::k_sub, {args[0], std::move(whole)}, loc);
  }
  if (word == "ceildiv") return ceildiv(args[0], args[1], loc);
  if (word == "dot") return dot(args, loc);
  const Value* typed = nullptr;
  for (const Operand& each : args)
    if (!typed && each.kind == Operand::Kind::value) typed = each.value;
  const bool isReal =
      std::ranges::any_of(args, [](const Operand& each) { return each.isLiteral() && !each.isInteger; });
  if (!typed && lanes && isReal) return emit(Opcode::k_vec, args, loc, Type::scalar(DType::f32, lanes));
  if (!typed && lanes)
    return failAt(loc,
                  "integer literals do not determine the element type of {0}: write {0}(1.0, …) of f32, or "
                  "`%v = tgk.vec 1, … : {0}<u32>`",
                  word);
  if (!typed) return failAt(loc, "{} takes a value; a literal has the type of its place", word);
  if (lanes) return emit(Opcode::k_vec, args, loc, Type::scalar(typed->type.dtype, lanes));
  const DType to = dtypeNamed(word).value_or(DType::i1);  // else it is the word bool
  return emit(Opcode::k_cast, args, loc, Type::scalar(to, typed->type.lanes));
}

/// a / b rounded up, for divisors of either sign. The quotient is rounded towards 0, so that 1 is added if there is a
/// remainder with the sign of the divisor. Unlike a + b - 1, this does not overflow.
Result<Operand> Parser::ceildiv(const Operand& a, const Operand& b, const Loc& loc) {
  const Operand zero = Operand::literal(int64_t{0}), one = Operand::literal(int64_t{1});
  const Type type =
      a.isLiteral() ? (b.isLiteral() ? Type::scalar(DType::i32) : b.value->type) : a.value->type;
  auto isReal = [](const Operand& each) { return each.isLiteral() && !each.isInteger; };
  if ((type.dtype != DType::i32 && type.dtype != DType::u32) || isReal(a) || isReal(b))
    return failAt(loc, "ceildiv takes integers");
  if (a.isLiteral() && b.isLiteral()) {
    if (b.integer == 0) return failAt(loc, "ceildiv divides by 0");
    if (const auto up = combineExtents("ceildiv", a.integer, b.integer)) return Operand::literal(*up);
    return failAt(loc, "ceildiv of these literals has no value");
  }
  TG_TRY(Operand quotient, function("div", {a, b}, loc));
  TG_TRY(Operand rest, function("mod", {a, b}, loc));
  Operand up;
  if (type.dtype == DType::u32 || (b.isLiteral() && b.integer > 0)) {
    TG_TRY(up, function("min", {rest, one}, loc));
    if (type.dtype == DType::i32) {
      TG_TRY(up, function("max", {up, zero}, loc));
    }
  } else {
    TG_TRY(Operand some, emit(Opcode::k_ne, {rest, zero}, loc));
    TG_TRY(Operand signs, emit(Opcode::k_xor, {rest, b}, loc));
    TG_TRY(Operand alike, emit(Opcode::k_ge, {std::move(signs), zero}, loc));
    TG_TRY(Operand both, emit(Opcode::k_and, {std::move(some), std::move(alike)}, loc));
    TG_TRY(up, emit(Opcode::k_cast, {std::move(both)}, loc, Type::scalar(DType::i32, type.lanes)));
  }
  return function("add", {std::move(quotient), std::move(up)}, loc);
}

/// The sum of the products of the lanes, added in order.
Result<Operand> Parser::dot(const OperandList& args, const Loc& loc) {
  TG_TRY(Operand product, emit(Opcode::k_mul, args, loc));
  Operand sum;
  for (int64_t lane = 0; lane < product.value->type.lanes; ++lane) {
    TG_TRY(Operand part, emit(Opcode::k_extract, {product, Operand::literal(lane)}, loc));
    if (lane == 0) {
      sum = part;
      continue;
    }
    TG_TRY(sum, emit(Opcode::k_add, {std::move(sum), std::move(part)}, loc));
  }
  return sum;
}

/// Builds an op at the insertion point and returns its result. The type is inferred unless declared. If it does not follow
/// from the operands, it must be declared behind the expression, of which the op is then the last.
Result<Operand> Parser::emit(Opcode code, OperandList operands, const Loc& loc, Type declared) {
  TG_CHECK(checkTyped());
  auto op = Op::create(code, loc, std::move(operands));
  Value* value = unnamed(op->addResult(declared), op->info().name.substr(4));
  if (code != Opcode::k_if) {
    auto types = inferKernelOp(*op);
    const bool open = declared.kind == Type::Kind::none && literalType(*op).kind == Type::Kind::none;
    if (!types && !open) return types.error();
    if (types)
      value->type = types->front();
    else
      untyped_ = value;
  }
  current_->ops.push_back(std::move(op));
  return Operand::of(value);
}

/// An error if the type of an expression on literals is not declared.
Result<void> Parser::checkTyped() const {
  if (untyped_) TG_CHECK(inferKernelOp(*untyped_->def));
  return {};
}

/// Parses an expression that should be a literal; ops that it makes otherwise are discarded.
Result<Operand> Parser::literalExpression() {
  Block lost;
  const Loc loc = here();
  const size_t named = unnamed_.size(), extents = extents_.size();
  const Expressions mode = std::exchange(expressions_, Expressions::ops);
  Block* outer = std::exchange(current_, &lost);
  TG_TRY(Operand value, expression());
  current_ = outer;
  expressions_ = mode;
  if (extents_.size() != extents) return failAt(loc, "the extent of an axis is known only at the call");
  unnamed_.resize(named);
  return value;
}

/// An integer known at parse time: a number, a constant, or an expression of these.
Result<int64_t> Parser::constantInt(std::string_view what) {
  const Loc loc = here();
  TG_TRY(Operand value, literalExpression());
  if (!value.isLiteral() || !value.isInteger) return failAt(loc, "expected {}, an integer", what);
  return value.integer;
}

}  // namespace tg
