// SPDX-License-Identifier: Apache-2.0
// The grammar of ops: results, operands, attributes, types, places, regions.
#include <fmt/format.h>

#include <limits>

#include "ir/access.h"
#include "ir/parser_rules.h"
#include "ir/text.h"

namespace tg {

using table::Slot;
using table::SlotKind;

/// Whether an attribute list follows an op's operands. For an op with regions `{}` is an empty region, unless types
/// or a region follow.
bool Parser::startsAttributes(const Op& op) {
  if (!lex_.peek().is("{")) return false;
  Lexer ahead = lex_;
  ahead.next();
  const bool word = ahead.peek().kind == Token::Kind::word;
  if (!word && !ahead.peek().is("}")) return false;
  ahead.next();
  const Token& after = ahead.peek();
  return word ? after.is("=") : op.info().regions == 0 || after.is(":") || after.is("{");
}

bool Parser::startsOperand() {
  const Token& token = lex_.peek();
  return startsExpression() || token.kind == Token::Kind::value || token.kind == Token::Kind::number ||
         token.kind == Token::Kind::symbol || token.is("[") || token.isWord("inf") || token.isWord("nan") ||
         token.isWord("true") || token.isWord("false") || token.isWord("dense");
}

/// Whether an expression stands in place of an op's name, `%y = %a + 1.0 : f32`.
bool Parser::startsAssignment() {
  if (expressions_ != Expressions::ops) return false;
  const Token& token = lex_.peek();
  if (token.kind != Token::Kind::word) return startsOperand();
  return startsOperand() || (token.text.starts_with("tgk.") && isShorthand(token.text.substr(4)));
}

/// Whether the results of the next op begin here, `%r =` or `%r, …`: the op before has no types then.
bool Parser::startsResults() {
  if (lex_.peek().is("[")) return true;
  return lex_.peek().kind == Token::Kind::value && (peekSecond().is("=") || peekSecond().is(","));
}

Result<Operand> Parser::literalToken() {
  const Token token = lex_.next();
  if (token.text == "inf") return Operand::literal(std::numeric_limits<double>::infinity());
  if (token.text == "nan") return Operand::literal(std::numeric_limits<double>::quiet_NaN());
  if (token.text == "true" || token.text == "false")
    return Operand::literal(static_cast<int64_t>(token.text == "true"));
  auto number = parseNumber(token.text);
  if (!number) return failAt(lex_.locAt(token.offset), "'{}' is not a number", token.text.substr(0, 40));
  if (!number->isInteger && token.text != "-inf" && std::isinf(static_cast<float>(number->real)))
    return failAt(lex_.locAt(token.offset), "'{}' is too large for f32; write inf if that is intended",
                  token.text.substr(0, 40));
  // Real literals are rounded to f32 when they are read, so that every later stage sees the same value.
  if (!number->isInteger) return Operand::literal(static_cast<double>(static_cast<float>(number->real)));
  Operand literal = Operand::literal(number->integer);
  if (number->integer == 0 && token.text.starts_with('-')) literal.real = -0.0;
  return literal;
}

Result<OperandList> Parser::operandsUntil(std::string_view close, int depth) {
  OperandList out;
  if (accept(close)) return out;
  do {
    TG_TRY(Operand item, operandOrExpression(depth + 1));
    out.push_back(std::move(item));
  } while (accept(","));
  TG_CHECK(expect(close));
  return out;
}

/// Parses `%a = source`; %a becomes an argument of the op's region.
Result<Operand> Parser::binding() {
  Loc loc = here();
  auto target = std::make_unique<Value>();
  target->name = std::string(lex_.next().text);
  target->loc = loc;
  TG_CHECK(expect("="));
  TG_TRY(Operand source, operandOrExpression());
  pending_.push_back(std::move(target));
  return Operand::binding(pending_.back().get(), std::move(source));
}

/// Accepts the `[` of an index. In a function over tensors a `[` on a later line than the value begins the next op:
/// `[%a, %b] = …`.
bool Parser::acceptIndex(const Token& value) {
  return (expressions_ != Expressions::none || lex_.isOnLineOf(value)) && accept("[");
}

Result<Operand> Parser::operand(int depth) {
  if (depth > kMaxNesting) return errorHere("operands are nested too deeply");
  const Token token = lex_.peek();
  if (token.kind == Token::Kind::value) {
    if (startsBinding()) return binding();
    TG_TRY(Value * value, lookup());
    if (!acceptIndex(token)) return Operand::of(value);
    TG_TRY(OperandList indices, operandsUntil("]", depth));
    return Operand::element(value, std::move(indices));
  }
  if (token.kind == Token::Kind::symbol) {
    lex_.next();
    if (!accept("[")) return Operand::symbol(std::string(token.text));
    TG_TRY(int64_t offset, expectInt("a byte offset", kMaxBytes));
    TG_CHECK(expect(":"));
    TG_TRY(int64_t bytes, expectInt("a byte length", kMaxBytes));
    TG_CHECK(expect("]"));
    return Operand::range(std::string(token.text), offset, bytes);
  }
  if (accept("[")) {
    Operand group;
    group.kind = Operand::Kind::group;
    TG_TRY(group.items, operandsUntil("]", depth));
    return group;
  }
  if (token.kind == Token::Kind::word && peekSecond().is("(")) {
    std::string word(lex_.next().text);
    lex_.next();
    TG_TRY(OperandList args, operandsUntil(")", depth));
    return Operand::keyword(std::move(word), std::move(args));
  }
  if (startsOperand()) return literalToken();
  return expected("an operand");
}

/// How an operand of this slot kind is written.
static std::string_view formOf(SlotKind kind) {
  switch (kind) {
  case SlotKind::callee:
  case SlotKind::symbol: return "a name, as @w";
  case SlotKind::element: return "an element, as %x[%i]";
  case SlotKind::binding: return "a binding, as %a = %x";
  case SlotKind::literal: return "a number, or dense(…)";
  default: return "a value, as %x";
  }
}

/// Parses one operand of a comma-separated slot.
Result<void> Parser::positional(Op& op, const Slot& slot) {
  const Loc place = here();
  const bool value = slot.kind == SlotKind::value || slot.kind == SlotKind::optional ||
                     slot.kind == SlotKind::values || slot.kind == SlotKind::literal;
  TG_TRY(Operand parsed, value ? operandOrExpression() : operand());
  using Kind = Operand::Kind;
  bool fits = true;
  switch (slot.kind) {
  case SlotKind::callee:
  case SlotKind::symbol: fits = parsed.kind == Kind::symbol; break;
  case SlotKind::element: fits = parsed.kind == Kind::element; break;
  case SlotKind::binding: fits = parsed.kind == Kind::binding; break;
  case SlotKind::literal:
    fits = parsed.kind == Kind::literal || (parsed.kind == Kind::keyword && parsed.text == "dense");
    break;
  default: fits = parsed.kind == Kind::value || parsed.kind == Kind::literal; break;
  }
  if (!fits)
    return failAt(place, "{}: operand '{}' has the wrong form; it is {}", op.info().name, slot.name,
                  formOf(slot.kind));
  op.operands.push_back(std::move(parsed));
  return {};
}

/// Parses the inputs `(%x, 0.5)` after `@kernel`.
Result<void> Parser::calleeInputs(Op& op) {
  TG_CHECK(expect("("));
  TG_TRY(OperandList inputs, operandsUntil(")", 0));
  for (Operand& input : inputs) {
    if (input.kind != Operand::Kind::value && input.kind != Operand::Kind::literal)
      return failAt(op.loc, "{}: an input of @{} is not a value", op.info().name, op.operands[0].text);
    op.operands.push_back(std::move(input));
  }
  return {};
}

/// Parses the bindings `(%a = %x, %g = [%y, %z])` of a tg.fused.
Result<void> Parser::regionBindings(Op& op) {
  TG_CHECK(expect("("));
  TG_TRY(OperandList bound, operandsUntil(")", 0));
  for (Operand& operand : bound) {
    if (operand.kind != Operand::Kind::binding)
      return failAt(op.loc, "{}: expected bindings '%a = %x'", op.info().name);
    const Operand& source = operand.items[0];
    bool good =
        source.kind == Operand::Kind::value || (source.kind == Operand::Kind::group && !source.items.empty());
    for (const Operand& member : source.items) good = good && member.kind == Operand::Kind::value;
    if (!good)
      return failAt(operand.value->loc, "{}: %{} is bound to neither a value nor a group [%x, …] of values",
                    op.info().name, operand.value->name);
    op.operands.push_back(std::move(operand));
  }
  return {};
}

/// Parses an op's operands by the slots of its row.
Result<void> Parser::operandList(Op& op) {
  bool first = true;
  auto wrongCount = [&](std::string_view slot) {
    const bool ends = lex_.peek().kind == Token::Kind::end || lex_.peek().is(":") || lex_.peek().is("{") ||
                      placeOf(here())->line != placeOf(op.loc)->line;
    // In NumPy the names of these ops of two operands are reductions.
    const std::string_view reduces =
        op.code == Opcode::max   ? "; over the axes of one tensor take tg.max_reduce"
        : op.code == Opcode::min ? "; over the axes of one tensor take tg.min_reduce"
                                 : "";
    if (ends) return failAt(op.loc, "{}: operand '{}' is missing{}", op.info().name, slot, reduces);
    if (!first && startsOperand())
      return expected(fmt::format("',' and operand '{}' of {}", slot, op.info().name));
    return expected(fmt::format("operand '{}' of {}", slot, op.info().name));
  };
  for (const Slot& slot : op.info().slots) {
    switch (slot.kind) {
    case SlotKind::keyword:
    case SlotKind::args:
      if (lex_.peek().isWord(slot.name)) {
        TG_TRY(Operand parsed, operand());
        op.operands.push_back(std::move(parsed));
      } else if (slot.kind == SlotKind::args) {
        return wrongCount(slot.name);
      }
      break;
    case SlotKind::callee: TG_CHECK(positional(op, slot)); return calleeInputs(op);
    case SlotKind::bindings: TG_CHECK(regionBindings(op)); break;
    case SlotKind::optional:
      if (accept(",")) TG_CHECK(positional(op, slot));
      break;
    case SlotKind::values:
      // After an op without operands `%y =` begins the next op.
      while (first ? startsOperand() && !startsBinding() : accept(",")) {
        TG_CHECK(positional(op, slot));
        first = false;
      }
      break;
    default:
      if (first ? !startsOperand() : !accept(",")) {
        if (!first && expressions_ == Expressions::none && peekInfix())
          return errorHere(
              fmt::format("{}: tensors have no operators; write an op for each", op.info().name));
        return wrongCount(slot.name);
      }
      TG_CHECK(positional(op, slot));
      first = false;
    }
  }
  if (lex_.peek().is(",") || (startsOperand() && !startsResults()))
    return errorHere(
        fmt::format("{}: too many operands; it takes {}", op.info().name, op.info().slots.size()));
  return {};
}

/// Parses `%a, [%b, %c] =`. The results get their types later, in types().
Result<void> Parser::resultNames(Op& op) {
  auto one = [&]() -> Result<void> {
    if (lex_.peek().kind != Token::Kind::value) return expected("a result name");
    op.results.push_back(std::make_unique<Value>());
    Value& value = *op.results.back();
    value.loc = here();
    value.name = std::string(lex_.next().text);
    value.def = &op;
    return {};
  };
  bool anyGroup = false;
  do {
    if (accept("[")) {
      size_t before = op.results.size();
      do TG_CHECK(one());
      while (accept(","));
      TG_CHECK(expect("]"));
      op.groups.push_back(static_cast<int>(op.results.size() - before));
      anyGroup = true;
    } else {
      TG_CHECK(one());
      op.groups.push_back(0);
    }
  } while (accept(","));
  if (!anyGroup) op.groups.clear();
  return expect("=");
}

/// Types that are missing at the end of a line are an error there, not at the next token.
Error Parser::missingTypes(std::string_view name) const {
  if (!lex_.beginsLine()) return expected("':' and the result types");
  return failAt(lex_.endOfLast(), "{}: expected ':' and the result types at the end", name);
}

/// Parses `: type, …` and gives the results their types; a terminator has its operands' types there.
Result<void> Parser::types(Op& op, std::string_view name) {
  if (!accept(":")) {
    return op.results.empty() ? Result<void>() : missingTypes(name);
  }
  std::vector<Type> parsed;
  do {
    if (accept("[")) {
      do {
        TG_TRY(Type type, parseType());
        parsed.push_back(type);
      } while (accept(","));
      TG_CHECK(expect("]"));
    } else {
      TG_TRY(Type type, parseType());
      parsed.push_back(type);
    }
  } while (accept(","));
  if (op.info().has(table::terminator)) {
    // A terminator is printed with its operands' types.
    if (parsed.size() != op.operands.size())
      return failAt(op.loc, "{}: {} but {}", name, countText(op.operands.size(), "operand"),
                    countText(parsed.size(), "type"));
    for (size_t i = 0; i < parsed.size(); ++i)
      if (op.operands[i].value && !(op.operands[i].value->type == parsed[i]))
        return failAt(op.loc, "{}: %{} has type {}, not {}", name, op.operands[i].value->name,
                      op.operands[i].value->type.str(), parsed[i].str())
            .note(op.operands[i].value->loc, "defined here");
    return {};
  }
  if (parsed.size() != op.results.size())
    return failAt(op.loc, "{}: {} but {}", name, countText(op.results.size(), "result"),
                  countText(parsed.size(), "type"));
  for (size_t i = 0; i < parsed.size(); ++i) op.results[i]->type = parsed[i];
  return {};
}

/// Parses `@arena[1024] inplace(%a)`.
Result<Place> Parser::place() {
  Place place;
  TG_TRY(place.buffer, expectSymbol("a buffer"));
  TG_CHECK(expect("["));
  TG_TRY(place.offset, expectInt("a byte offset", kMaxBytes));
  TG_CHECK(expect("]"));
  if (lex_.peek().isWord("inplace")) {
    lex_.next();
    TG_CHECK(expect("("));
    TG_TRY(place.inplace, lookup());
    TG_CHECK(expect(")"));
  }
  return place;
}

/// Parses `-> place, …`, one for each result slot; the members of a group get their places within it.
Result<void> Parser::places(Op& op) {
  if (!accept("->")) return {};
  size_t next = 0;
  size_t slots = op.groups.empty() ? op.results.size() : op.groups.size();
  for (size_t slot = 0; slot < slots; ++slot) {
    if (slot) TG_CHECK(expect(","));
    TG_TRY(Place at, place());
    int members = op.groups.empty() ? 0 : op.groups[slot];
    if (members == 0) {
      op.results[next++]->place = at;
      continue;
    }
    std::vector<Type> memberTypes;
    for (int m = 0; m < members; ++m) memberTypes.push_back(op.results[next + m]->type);
    std::vector<int64_t> offsets;
    groupBytes(memberTypes, &offsets);
    for (int m = 0; m < members; ++m) {
      Place member = at;
      member.offset += offsets[m];
      op.results[next++]->place = member;
    }
  }
  return {};
}

/// Sets the types of the region arguments that the op's bindings define: the source's type, a group's flat tensor,
/// the result types for a loop's carried values, u32 for a loop index.
Result<void> Parser::typeBindings(Op& op) {
  const bool isLoop = op.code == Opcode::k_for;
  size_t carried = 0;
  for (Operand& operand : op.operands) {
    if (operand.kind == Operand::Kind::binding)
      operand.value->type = isLoop ? Type::scalar(DType::u32) : boundType(operand.items[0]);
    if (operand.kind != Operand::Kind::keyword) continue;
    for (Operand& item : operand.items) {
      if (item.kind != Operand::Kind::binding) continue;
      if (isLoop && carried == op.results.size())
        return failAt(item.value->loc,
                      "%{0} of iter_args has no result; name one for each, with its type: `%r = … "
                      "iter_args(%{0} = 0.0) : f32 {{ … }}`",
                      item.value->name);
      item.value->type = isLoop ? op.results[carried++]->type : boundType(item.items[0]);
    }
  }
  return {};
}

/// Parses an op's regions. The values that its operands have bound become arguments of the first one. The region of a
/// tg.fused sees no values from outside.
Result<void> Parser::regions(Op& op) {
  std::vector<std::unique_ptr<Value>> bound = std::move(pending_);
  pending_.clear();
  if (op.info().regions == 0) {
    if (!bound.empty()) return failAt(op.loc, "{}: takes no bindings", op.info().name);
    return {};
  }
  if (++depth_ > kMaxNesting) return failAt(op.loc, "regions are nested too deeply");
  TG_CHECK(typeBindings(op));
  bool isolated = op.code == Opcode::fused;
  for (int index = 0; index < op.info().regions; ++index) {
    if (index > 0) {
      if (!lex_.peek().isWord("else")) break;
      lex_.next();
    }
    TG_CHECK(expect("{"));
    Scope outer;
    std::vector<std::string_view> outerDefined;
    if (isolated) std::swap(outer, scope_), std::swap(outerDefined, defined_);
    size_t mark = defined_.size();
    op.regions.push_back(std::make_unique<Block>());
    Block& body = *op.regions.back();
    if (index == 0)
      for (auto& value : bound) {
        value->block = &body;
        TG_CHECK(define(value.get(), value->loc));
        body.args.push_back(std::move(value));
      }
    TG_CHECK(block(body));
    while (defined_.size() > mark) scope_.erase(defined_.back()), defined_.pop_back();
    if (isolated) std::swap(outer, scope_), std::swap(outerDefined, defined_);
  }
  --depth_;
  return {};
}

/// Parses one op: results, name, operands, attributes, types, places, regions, location.
Result<std::unique_ptr<Op>> Parser::op() {
  Loc loc = here();
  auto named = Op::create(Opcode::yield, loc);  // holds the results until the op's name is parsed
  if (lex_.peek().kind == Token::Kind::value || lex_.peek().is("[")) TG_CHECK(resultNames(*named));
  Loc nameLoc = here();
  if (startsAssignment()) return assignment(std::move(named));
  TG_TRY(std::string opName, expectWord("an op"));
  named->loc = loc;
  if (opName == "tgk.while" && expressions_ == Expressions::ops) return whileLoop(std::move(named));
  const OpInfo* row = findOp(opName);
  if (!row) return unknownOp(nameLoc, opName);
  named->code = row->code;
  named->loc = loc;
  std::unique_ptr<Op> op = std::move(named);
  TG_CHECK(operandList(*op));
  if (startsAttributes(*op)) {
    lex_.next();
    TG_TRY(AttrList attrs, parseAttrMembers());
    for (NamedAttr& attr : attrs) op->setAttr(attr.name, std::move(attr.value));
  }
  TG_CHECK(types(*op, op->info().name));
  TG_CHECK(places(*op));
  TG_CHECK(regions(*op));
  TG_CHECK(location(op->loc));
  if (op->code == Opcode::constant && !op->operands.empty() && !op->results.empty() &&
      isFloat(op->result()->type.dtype)) {
    const DType dtype = op->result()->type.dtype;
    auto toReal = [dtype](Operand& literal) {
      if (!literal.isLiteral()) return;
      if (isNarrow(dtype)) literal = Operand::literal(roundedTo(dtype, literal.number()));
      if (literal.isInteger) literal = Operand::literal(literal.number());
    };
    toReal(op->operands[0]);
    for (Operand& item : op->operands[0].items) toReal(item);
  }
  for (auto& result : op->results) TG_CHECK(define(result.get(), result->loc));
  return op;
}

Result<void> Parser::block(Block& block) {
  Block* outer = std::exchange(current_, &block);
  const size_t constants = constants_.size();
  while (!accept("}")) {
    if (lex_.peek().kind == Token::Kind::end) return expected("'}'");
    TG_CHECK(statement(block));
  }
  constants_.resize(constants);
  current_ = outer;
  return {};
}

}  // namespace tg
