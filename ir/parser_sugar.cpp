// SPDX-License-Identifier: Apache-2.0
// Statements of kernels that stand for other ops: constants, named expressions, early returns, bounded while loops.
#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/kernel/kernel.h"
#include "ir/parser_rules.h"
#include "ir/text.h"

namespace tg {

Value* Parser::unnamed(Value* value, std::string_view hint) {
  unnamed_.emplace_back(value, std::string(hint));
  return value;
}

/// Names the values that shorthands have made; the names differ from all that the author uses in the item.
void Parser::nameValues(const Item& item) {
  if (unnamed_.empty()) return;
  NameTable names(item);
  for (auto& [value, hint] : unnamed_) value->name = names.unique(hint);
  unnamed_.clear();
}

Error Parser::unknownOp(const Loc& loc, std::string_view name) const {
  std::string text = fmt::format("unknown op '{}'", name.substr(0, 60));
  const bool kernel = name.starts_with("tgk.") || expressions_ == Expressions::ops;
  if (const std::string_view func = name.substr(name.find('.') + 1);
      kernel && module_->find(ItemKind::func, func))
    return failAt(loc, "{}; call the func by tgk.call @{}(…)", text, func);
  if (std::string_view way = kernel ? insteadOf(name) : insteadOfTensorOp(name); !way.empty())
    return failAt(loc, "{}; {}", text, way);
  std::string_view near = nearestOp(name, kernel);
  return failAt(loc, near.empty() ? text : fmt::format("{}; did you mean '{}'?", text, near));
}

/// Parses one op, or a statement that stands for several. `around` is the body that is being parsed.
Result<void> Parser::statement(const Block& around) {
  if (lex_.peek().isWord("const")) return constantStatement();
  if (lex_.peek().isWord("tgk.return_if")) return returnIf(around);
  TG_TRY(std::unique_ptr<Op> parsed, op());
  TG_CHECK(checkTyped());
  if (parsed) current_->ops.push_back(std::move(parsed));
  return {};
}

/// `const TILE = 16`: valid to the end of the enclosing body; between items, to the end of the module.
Result<void> Parser::constantStatement() {
  lex_.next();
  const Loc loc = here();
  TG_TRY(std::string name, expectWord("a constant's name"));
  if (name.find('.') != std::string::npos) return failAt(loc, "'{}' is not a valid name of a constant", name);
  if (const NamedConstant* known = constant(name))
    return failAt(loc, "redefinition of {}", name).note(known->loc, "first defined here");
  if (item_ && namesValue(name)) return failAt(loc, "'{}' is the extent of an axis", name);
  TG_CHECK(expect("="));
  const Loc at = here();
  TG_TRY(Operand value, literalExpression());
  if (!value.isLiteral())
    return failAt(at, "a constant is computed from literals; an expression is named by `%{} = …`", name);
  constants_.push_back({std::move(name), {value.isInteger, value.integer, value.real}, loc});
  return {};
}

/// The comparison that is true where `code` is false. For integers only: floats may be NaN.
static std::optional<Opcode> opposite(Opcode code) {
  switch (code) {
  case Opcode::k_lt: return Opcode::k_ge;
  case Opcode::k_le: return Opcode::k_gt;
  case Opcode::k_gt: return Opcode::k_le;
  case Opcode::k_ge: return Opcode::k_lt;
  case Opcode::k_eq: return Opcode::k_ne;
  case Opcode::k_ne: return Opcode::k_eq;
  default: return {};
  }
}

/// Sets the branch's condition to the opposite of `cond`: a comparison that was just built for it is inverted in
/// place.
Result<void> Parser::flip(Operand cond, Op& branch) {
  const bool fresh = cond.value && !unnamed_.empty() && unnamed_.back().first == cond.value;
  auto code = fresh ? opposite(cond.value->def->code) : std::nullopt;
  if (code && !isFloat(operandType(*cond.value->def, cond.value->def->operands[0]).dtype)) {
    cond.value->def->code = *code;
    unnamed_.back().second = cond.value->def->info().name.substr(4);
    branch.operands = {std::move(cond)};
    return {};
  }
  TG_TRY(Operand stays, emit(Opcode::k_not, {std::move(cond)}, branch.loc));
  branch.operands = {std::move(stays)};
  return {};
}

/// `tgk.return_if %i >= N`: the rest of the kernel becomes the body of a tgk.if with the opposite condition.
Result<void> Parser::returnIf(const Block& around) {
  const Loc loc = here();
  lex_.next();
  if (item_->kind != ItemKind::kernel || &around != &item_->body)
    return failAt(loc, "tgk.return_if is allowed only in a kernel's own body, not in a nested body or a "
                       "func; wrap the ops that follow in tgk.if");
  TG_TRY(Operand cond, expression());
  auto branch = Op::create(Opcode::k_if, loc);
  TG_CHECK(flip(std::move(cond), *branch));
  branch->regions.push_back(std::make_unique<Block>());
  Block* rest = branch->regions.back().get();
  current_->ops.push_back(std::move(branch));
  current_ = rest;
  return {};
}

/// Names the result of an expression: `%y = %a * %x[%i] : f32`, `%y = tgk.clamp %x, 0.0, 1.0 : f32`.
Result<std::unique_ptr<Op>> Parser::assignment(std::unique_ptr<Op> named) {
  const Loc loc = here();
  if (named->results.size() != 1 || !named->groups.empty())
    return failAt(loc, "an expression has one result");
  Value& result = *named->results.front();
  Operand value;
  if (lex_.peek().kind == Token::Kind::word && lex_.peek().text.starts_with("tgk.")) {
    const std::string_view word = lex_.next().text.substr(4);
    OperandList args;
    do {
      TG_TRY(Operand each, expression());
      args.push_back(std::move(each));
    } while (accept(","));
    TG_TRY(value, shorthand(word, args, loc));
  } else {
    TG_TRY(value, expression());
    for (const auto& [axis, extent] : extents_)
      if (value.value == extent) {  // an extent that others use too: this name gets its own
        TG_TRY(value, emit(Opcode::k_dim, extent->def->operands, loc));
        break;
      }
  }
  if (!value.value)
    return failAt(loc, "%{} would be a literal; name it by `const {} = …`", result.name, result.name);
  if (!accept(":")) return missingTypes("%" + result.name);
  TG_TRY(Type type, parseType());
  if (value.value == untyped_) {
    std::exchange(untyped_, nullptr)->type = type;
    TG_TRY(const std::vector<Type> types, inferKernelOp(*value.value->def));
    value.value->type = types.front();
  }
  if (type != value.value->type)
    return failAt(loc, "%{} is declared {}, but is {}", result.name, type.str(), value.value->type.str());
  Op* def = value.value->def;
  if (current_->ops.empty() || current_->ops.back() != def || unnamed_.empty() ||
      unnamed_.back().first != value.value)
    return failAt(loc, "%{} only names %{} again", result.name, value.value->name);
  unnamed_.pop_back();
  std::unique_ptr<Op> op = current_->ops.takeBack();
  value.value->name = result.name;
  value.value->loc = result.loc;
  TG_CHECK(location(op->loc));
  TG_CHECK(define(value.value, result.loc));
  return op;
}

Result<void> Parser::skipParentheses() {
  int open = 1;
  while (open > 0) {
    const Token token = lex_.next();
    if (token.kind == Token::Kind::end) return expected("')'");
    open += token.is("(") - token.is(")");
  }
  return {};
}

/// A loop that runs while a condition on its carried values holds, at most `max` times:
///
///   %z, %n = tgk.while (%a < 4.0) iter_args(%a = %x, %k = 0) max(100) : f32, u32 { … }
///
/// becomes a tgk.for of `max` iterations that contains a tgk.if, whose else body passes the values on.
Result<std::unique_ptr<Op>> Parser::whileLoop(std::unique_ptr<Op> loop) {
  loop->code = Opcode::k_for;
  TG_CHECK(expect("("));
  const uint32_t condition = lex_.peek().offset;
  TG_CHECK(skipParentheses());
  std::optional<Operand> carried, most;
  for (;;) {
    if (!most && lex_.peek().isWord("max")) {
      TG_TRY(most, operand());
      most->text = "to";
    } else if (!carried && lex_.peek().isWord("iter_args")) {
      TG_TRY(carried, operand());
    } else {
      break;
    }
  }
  if (!most || most->items.size() != 1)
    return failAt(loop->loc, "tgk.while: expected max(N), the most rounds it makes");
  auto index = std::make_unique<Value>();
  index->loc = loop->loc;
  unnamed(index.get(), "round");
  loop->operands = {Operand::binding(index.get(), Operand::literal(int64_t{0})), std::move(*most)};
  if (carried) loop->operands.push_back(std::move(*carried));
  pending_.insert(pending_.begin(), std::move(index));
  TG_CHECK(types(*loop, "tgk.while"));
  TG_CHECK(typeBindings(*loop));
  if (!lex_.peek().is("{")) return expected("'{'");
  if (++depth_ > kMaxNesting) return failAt(loop->loc, "regions are nested too deeply");
  TG_CHECK(whileBody(*loop, condition, lex_.peek().offset));
  --depth_;
  TG_CHECK(location(loop->loc));
  for (auto& result : loop->results) TG_CHECK(define(result.get(), result->loc));
  return loop;
}

/// Checks an operand of a tgk.while.
static Result<void> checkType(const Loc& loc, std::string_view what, const Operand& operand,
                              const Type& type) {
  if (isOfType(operand, type)) return {};
  return failAt(loc, "tgk.while: {} is {}, not {}", what,
                operand.isLiteral() ? literalText(operand) : operand.value->type.str(), type.str());
}

/// Parses the condition and the body, which are at these byte offsets of the text.
Result<void> Parser::whileBody(Op& loop, uint32_t condition, uint32_t body) {
  const size_t mark = defined_.size();
  loop.regions.push_back(std::make_unique<Block>());
  Block& round = *loop.regions.back();
  for (auto& value : std::exchange(pending_, {})) {
    value->block = &round;
    if (!round.args.empty()) TG_CHECK(define(value.get(), value->loc));  // the index has no name yet
    round.args.push_back(std::move(value));
  }
  Block* outer = std::exchange(current_, &round);
  lex_.rewind(condition);
  TG_TRY(Operand cond, expression());
  TG_CHECK(expect(")"));
  lex_.rewind(body);
  TG_CHECK(expect("{"));
  auto branch = Op::create(Opcode::k_if, loop.loc, {std::move(cond)});
  branch->regions.push_back(std::make_unique<Block>());
  TG_CHECK(block(*branch->regions.back()));
  // Checked here, because the verifier knows only the two ops that the loop becomes.
  const Op* last = branch->regions.back()->ops.back();
  const size_t yielded = last && last->code == Opcode::k_yield ? last->operands.size() : 0;
  const size_t carried = round.args.size() - 1;  // all but the index
  if (carried != loop.results.size() || yielded != carried)
    return failAt(loop.loc, "tgk.while: {}, {}, {} yielded; it takes one of each for every value",
                  countText(loop.results.size(), "result"), countText(carried, "carried value"), yielded);
  TG_CHECK(checkType(loop.loc, "the condition", branch->operands[0], Type::scalar(DType::i1)));
  TG_CHECK(checkType(loop.loc, "max", loop.keyword("to")->items[0], Type::scalar(DType::u32)));
  size_t next = 0;
  for (const Operand& binding : iterArgs(loop)) {
    if (binding.kind != Operand::Kind::binding) continue;  // the verifier's error
    const Value& arg = *binding.value;
    TG_CHECK(checkType(arg.loc, fmt::format("the first value of %{}", arg.name), binding.items[0], arg.type));
    TG_CHECK(checkType(last->loc, fmt::format("what is yielded for %{}", arg.name), last->operands[next++],
                       arg.type));
  }
  auto yieldTo = [&](Block& block) -> Op& {
    return *block.ops.push_back(Op::create(Opcode::k_yield, loop.loc));
  };
  if (!loop.results.empty()) {
    branch->regions.push_back(std::make_unique<Block>());
    Op& handsOn = yieldTo(*branch->regions.back());
    for (size_t arg = 1; arg < round.args.size(); ++arg)
      handsOn.operands.push_back(Operand::of(round.args[arg].get()));
    for (const auto& result : loop.results) {
      branch->results.push_back(std::make_unique<Value>());
      Value* value = unnamed(branch->results.back().get(), result->name);
      value->type = result->type;
      value->def = branch.get();
      value->loc = loop.loc;
    }
  }
  Op& made = *branch;
  round.ops.push_back(std::move(branch));
  if (!loop.results.empty())
    for (Op& next = yieldTo(round); const auto& result : made.results)
      next.operands.push_back(Operand::of(result.get()));
  current_ = outer;
  while (defined_.size() > mark) scope_.erase(defined_.back()), defined_.pop_back();
  return {};
}

}  // namespace tg
