// The parser's state and rules. Private to ir/parser*.cpp.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "ir/parse_core.h"

namespace tg {

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
  Result<void> binary();
  Result<void> arguments(Item& item);
  Result<void> attributesAndBody(Item& item);

  Result<void> block(Block& block);
  Result<std::unique_ptr<Op>> op();
  Result<void> resultNames(Op& op);
  Result<void> operandList(Op& op);
  Result<void> positional(Op& op, const table::Slot& slot);
  Result<Operand> operand(int depth = 0);
  Result<Operand> literalToken();
  Result<Operand> binding();
  Result<std::vector<Operand>> operandsUntil(std::string_view close, int depth);
  Result<void> types(Op& op);
  Result<void> places(Op& op);
  Result<Place> place();
  Result<void> regions(Op& op);
  Result<void> typeBindings(Op& op);
  Result<void> location(Loc& loc);
  Result<Loc> locationBody(int depth);
  bool startsAttributes();
  bool startsOperand() const;
  bool startsResults();
  Result<void> define(Value* value, const Loc& loc);
  Result<Value*> lookup();

  std::unique_ptr<Module> module_;
  Scope scope_;
  std::vector<std::string_view> defined_;        // names in scope, newest last, to undo
  std::vector<std::unique_ptr<Value>> pending_;  // arguments bound by the op being parsed
  int depth_ = 0;
};

}  // namespace tg
