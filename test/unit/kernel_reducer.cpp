// SPDX-License-Identifier: Apache-2.0
// Delta debugging of kernels: which ops can go while a fault stays.
#include <functional>

#include "ir/parser.h"
#include "test/unit/random_kernels.h"

namespace tg::test {
namespace {

/// Puts `by` in every place that reads `value`.
void substitute(Operand& operand, const Value* value, const Operand& by) {
  if (operand.kind == Operand::Kind::value && operand.value == value) {
    operand = by;
    return;
  }
  for (Operand& item : operand.items) substitute(item, value, by);
}
void substitute(const Block& body, const Value* value, const Operand& by) {
  walk(body, [&](Op& op) {
    for (Operand& operand : op.operands) substitute(operand, value, by);
  });
}

Operand literalOf(const Type& type, int which) {
  if (type.dtype == DType::i1) return Operand::literal(static_cast<int64_t>(which));
  if (isFloat(type.dtype)) return Operand::literal(which ? 0.5 : 0.0);
  return Operand::literal(static_cast<int64_t>(which));
}

/// One change of one op of a kernel; each returns false where it does not apply.
class Change {
 public:
  Change(Item& kernel, Op& op) : kernel_(kernel), op_(op) {}

  static constexpr int kKinds = 12;
  bool apply(int kind) {
    switch (kind) {
    case 0: return remove();
    case 1: return literal(0);
    case 2: return literal(1);
    case 3: return operand(0);
    case 4: return operand(1);
    case 5: return unwrap(0);
    case 6: return unwrap(1);
    case 7: return trips(0);
    case 8: return trips(1);
    case 9: return trips(2);
    case 10: return dropResult(0);
    default: return dropResult(1);
    }
  }

 private:
  bool erase() {
    op_.list()->erase(&op_);
    return true;
  }
  bool remove() { return op_.results.empty() && op_.code != Opcode::k_yield && erase(); }
  bool literal(int which) {
    if (op_.results.empty() || op_.result()->type.isBuffer()) return false;
    for (const auto& result : op_.results)
      substitute(kernel_.body, result.get(), literalOf(result->type, which));
    return erase();
  }
  bool operand(int index) {
    if (op_.results.size() != 1 || !op_.regions.empty() || op_.numOperands() <= index) return false;
    if (op_.code == Opcode::k_mod) return false;  // loops may owe their end to it
    Operand with = op_.operands[static_cast<size_t>(index)];
    if (with.kind != Operand::Kind::value || with.value->type != op_.result()->type) return false;
    substitute(kernel_.body, op_.result(), with);
    return erase();
  }
  /// A body in place of its if, or once in place of its for.
  bool unwrap(size_t region) {
    if (op_.regions.size() <= region) return false;
    Block& body = *op_.regions[region];
    if (op_.code == Opcode::k_for) {
      substitute(body, body.args[0].get(), op_.operands[0].items[0]);
      const Operand* carried = op_.keyword("iter_args");
      for (size_t i = 1; i < body.args.size(); ++i)
        substitute(body, body.args[i].get(), carried->items[i - 1].items[0]);
    }
    if (!body.ops.empty() && body.ops.back()->code == Opcode::k_yield) {
      for (size_t i = 0; i < op_.results.size(); ++i)
        substitute(kernel_.body, op_.results[i].get(), body.ops.back()->operands[i]);
      body.ops.takeBack();
    }
    op_.list()->splice(&op_, body.ops, body.ops.front());
    graveyard_.push_back(op_.list()->take(&op_));
    return true;
  }
  bool trips(int64_t count) {
    Operand* to = op_.code == Opcode::k_for ? op_.keyword("to") : nullptr;
    if (!to || (to->items[0].isLiteral() && to->items[0].integer <= count)) return false;
    to->items[0] = Operand::literal(count);
    return true;
  }
  /// One result of an if or for, and what carries it.
  bool dropResult(size_t index) {
    if (op_.regions.empty() || op_.results.size() <= index) return false;
    Operand by = literalOf(op_.results[index]->type, 1);
    if (op_.code == Opcode::k_for) {
      Operand* carried = op_.keyword("iter_args");
      by = carried->items[index].items[0];
      Block& body = *op_.regions[0];
      substitute(body, body.args[index + 1].get(), by);
      body.args.erase(body.args.begin() + static_cast<std::ptrdiff_t>(index + 1));
      carried->items.erase(carried->items.begin() + static_cast<std::ptrdiff_t>(index));
      if (carried->items.empty()) op_.operands.erase(op_.operands.begin() + (carried - &op_.operands[0]));
    }
    for (auto& region : op_.regions) {
      Op& yield = *region->ops.back();
      yield.operands.erase(yield.operands.begin() + static_cast<std::ptrdiff_t>(index));
    }
    substitute(kernel_.body, op_.results[index].get(), by);
    op_.results.erase(op_.results.begin() + static_cast<std::ptrdiff_t>(index));
    op_.groups.clear();
    return true;
  }

  Item& kernel_;
  Op& op_;
  OpList graveyard_;  ///< owns values that printing still names, until then
};

/// Calls fn on the op with the given number in text order; false when there are fewer.
bool at(Block& block, int* number, const std::function<void(Op&)>& fn) {
  for (Op* op : block.ops) {
    if ((*number)-- == 0) {
      fn(*op);
      return true;
    }
    for (auto& region : op->regions)
      if (at(*region, number, fn)) return true;
  }
  return false;
}

std::string itemsText(const Module& module) {
  std::string out;
  for (const auto& item : module.items) out += print(*item) + "\n";
  return out;
}

/// What must stay the same: the kind of fault and, of a refusal, its label. Empty without a fault.
std::string keyOf(const KernelGradReport& report) {
  if (report.fault == GradFault::none) return "";
  std::string key(name(report.fault));
  size_t open = report.what.find('['), close = report.what.find(']', open);
  bool labelled = report.fault == GradFault::refused || report.fault == GradFault::verify;
  return labelled && close != std::string::npos ? key + report.what.substr(open, close - open) : key;
}

class Reducer {
 public:
  explicit Reducer(const KernelGradCase& test) : best_(test) {}
  KernelGradCase run() {
    fault_ = keyOf(checkKernelGradient(best_));
    if (fault_.empty() || fault_ == name(GradFault::forward)) return best_;
    while (pass()) continue;
    dropParameters();
    return best_;
  }

 private:
  bool accept(KernelGradCase test) {
    if (keyOf(checkKernelGradient(test)) != fault_) return false;
    best_ = std::move(test);
    return true;
  }
  std::unique_ptr<Module> parsed() const {
    auto module = parse("module @m stage(kernel) {\n" + best_.text + "\n}\n", "kernel.tgir");
    return module ? *std::move(module) : nullptr;
  }
  /// Tries every change of every op, the last ops first; true when one stayed.
  bool pass() {
    int count = 0;
    walk(parsed()->find(ItemKind::kernel, best_.kernel)->body, [&](Op&) { ++count; });
    bool changed = false;
    for (int number = count - 1; number >= 0; --number)
      for (int kind = 0; kind < Change::kKinds; ++kind)
        if (tryChange(number, kind)) {
          changed = true;
          break;
        }
    return changed;
  }
  bool tryChange(int number, int kind) {
    std::unique_ptr<Module> module = parsed();
    Item& kernel = *module->find(ItemKind::kernel, best_.kernel);
    KernelGradCase test = best_;
    bool applied = false;
    at(kernel.body, &number, [&](Op& op) {
      Change change(kernel, op);
      applied = change.apply(kind);
      if (applied) test.text = itemsText(*module);
    });
    return applied && accept(std::move(test));
  }
  void dropParameters() {
    for (bool again = true; again;) {
      again = false;
      std::unique_ptr<Module> module = parsed();
      Item& kernel = *module->find(ItemKind::kernel, best_.kernel);
      auto& args = kernel.body.args;
      for (size_t i = 0; i < args.size() && !again; ++i) {
        if (!args[i]->uses.empty()) continue;
        KernelGradCase test = best_;
        std::erase(test.wrt, args[i]->name);
        std::erase(test.of, args[i]->name);
        if (test.wrt.empty() || test.of.empty()) continue;
        test.arrays.erase(args[i]->name);
        auto kept = std::move(args[i]);
        args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
        test.text = itemsText(*module);
        again = accept(std::move(test));
        args.insert(args.begin() + static_cast<std::ptrdiff_t>(i), std::move(kept));
      }
    }
  }

  KernelGradCase best_;
  std::string fault_;
};

}  // namespace

KernelGradCase reduceKernel(const KernelGradCase& test) { return Reducer(test).run(); }

}  // namespace tg::test
