// SPDX-License-Identifier: Apache-2.0
// The parser's state and rules. Private to ir/parser*.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/parse_core.h"

namespace tg {

/// A recursive descent parser: one function for each rule of the grammar, which consumes the rule's tokens. A Result
/// without a value ends the parse.
class Parser : ParseCore {
 public:
  using ParseCore::ParseCore;
  Result<std::unique_ptr<Module>> module();

 private:
  using Scope = std::unordered_map<std::string_view, Value*>;

  Result<void> item();
  Result<void> storageItem(ItemKind kind);
  Result<void> func();
  Result<void> kernel();
  Result<void> code(Item& item);
  Result<void> binary();
  Result<void> arguments(Item& item);
  Result<void> attributesAndBody(Item& item);

  Result<void> block(Block& block);
  Result<std::unique_ptr<Op>> op();
  Result<void> resultNames(Op& op);
  Result<void> operandList(Op& op);
  Result<void> positional(Op& op, const table::Slot& slot);
  Result<void> calleeInputs(Op& op);
  Result<void> regionBindings(Op& op);
  bool acceptIndex(const Token& value);
  Result<Operand> operand(int depth = 0);
  Result<Operand> literalToken();
  Result<Operand> binding();
  Result<OperandList> operandsUntil(std::string_view close, int depth);
  Error missingTypes(std::string_view name) const;
  Result<void> types(Op& op, std::string_view name);
  Result<void> places(Op& op);
  Result<Place> place();
  Result<void> regions(Op& op);
  Result<void> typeBindings(Op& op);
  Result<void> location(Loc& loc);
  Result<Loc> locationBody(int depth);

  // Expressions in kernels (parser_expr.cpp).
  enum class Expressions : uint8_t {
    none,  ///< a function over tensors
    ops,  ///< a body of a kernel or of a func of scalars: operators become ops in front of the op that uses them
    grid,  ///< operators become the keywords of a grid
  };
  struct Infix;
  const Infix* peekInfix();
  Result<Operand> operandOrExpression(int depth = 0);
  Result<Operand> expression(int depth = 0, int least = 0);
  Result<Operand> unary(int depth);
  Result<Operand> primary(int depth);
  Result<Operand> valueTerm(int depth);
  Result<Operand> wordTerm(int depth);
  Result<Operand> combine(const Infix& infix, Operand left, Operand right, const Loc& loc);
  Result<Operand> logical(const Infix& infix, Operand left, const Loc& loc, int depth);
  Result<Operand> function(std::string_view word, OperandList args, const Loc& loc);
  Result<Operand> shorthand(std::string_view word, const OperandList& args, const Loc& loc);
  Result<Operand> ceildiv(const Operand& a, const Operand& b, const Loc& loc);
  Result<Operand> dot(const OperandList& args, const Loc& loc);
  Result<Operand> emit(Opcode code, OperandList operands, const Loc& loc, Type declared = {});
  Result<void> checkTyped() const;
  Result<int64_t> constantInt(std::string_view what);
  std::optional<Operand> axisExtent(std::string_view name);
  Result<Operand> literalExpression();
  bool namesValue(std::string_view word) const;
  bool startsExpression();
  bool startsBinding();
  bool startsAssignment();
  static bool isFunction(std::string_view word);
  static bool isShorthand(std::string_view word);

  // Statements that stand for other ops (parser_sugar.cpp).
  Result<void> statement(const Block& around);
  Result<void> flip(Operand cond, Op& branch);
  Result<void> constantStatement();
  Result<void> returnIf(const Block& around);
  Result<std::unique_ptr<Op>> assignment(std::unique_ptr<Op> named);
  Result<std::unique_ptr<Op>> whileLoop(std::unique_ptr<Op> named);
  Result<void> whileBody(Op& loop, uint32_t condition, uint32_t body);
  Result<void> skipParentheses();
  Value* unnamed(Value* value, std::string_view hint);
  void nameValues(const Item& item);
  Error unknownOp(const Loc& loc, std::string_view name) const;

  bool startsAttributes(const Op& op);
  bool startsOperand();
  bool startsResults();
  Result<void> define(Value* value, const Loc& loc);
  Result<Value*> lookup();

  std::unique_ptr<Module> module_;
  Scope scope_;
  std::vector<std::string_view> defined_;        // names in scope, newest last, to undo
  std::vector<std::unique_ptr<Value>> pending_;  // arguments bound by the op being parsed
  int depth_ = 0;

  Expressions expressions_ = Expressions::none;
  Item* item_ = nullptr;                                 // the kernel or func that is being parsed
  Block* current_ = nullptr;                             // where the next op goes
  std::vector<std::pair<Value*, std::string>> unnamed_;  // made by sugar, with hints of their names
  Value* untyped_ = nullptr;                             // made by sugar, of a type that is declared next
  std::vector<std::pair<std::string, Value*>> extents_;  // of named axes that were used
};

/// How to write in the kernel language what another language calls `name`; "" if that is not known either. Takes
/// names as CUDA, GLSL or Triton spell them, and ops that the kernel language lacks: `threadIdx.x`, `__syncthreads`,
/// `tl.arange`, `gl_WorkGroupID`, `tgk.break`.
std::string_view insteadOf(std::string_view name);

/// The same for tensor ops, by the names of PyTorch, NumPy and StableHLO: `torch.where`, `stablehlo.dot_general`,
/// `tg.reduce_max`.
std::string_view insteadOfTensorOp(std::string_view name);

}  // namespace tg
