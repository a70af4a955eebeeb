// SPDX-License-Identifier: Apache-2.0
#include "ir/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/access.h"
#include "ir/collective.h"
#include "ir/dims.h"
#include "ir/infer.h"
#include "ir/init.h"
#include "ir/op_view.h"
#include "ir/rate_schedule.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/text.h"

namespace tg {
namespace {

using table::AttrKind;
using table::SlotKind;
using table::TypeClass;

std::string_view describe(TypeClass wanted, bool kernel) {
  constexpr std::string_view names[] = {"any type", "a number", "a float", "an integer", "i1"};
  return kernel && wanted == TypeClass::boolean ? "bool" : names[static_cast<int>(wanted)];
}

bool admits(const table::AttrRow& row, const Attr& value) {
  switch (row.kind) {
  case AttrKind::integer: return value.kind == Attr::Kind::integer;
  case AttrKind::real: return value.isNumber();
  case AttrKind::boolean: return value.kind == Attr::Kind::boolean;
  case AttrKind::string: return value.kind == Attr::Kind::string;
  case AttrKind::symbol: return value.kind == Attr::Kind::symbol;
  case AttrKind::ints: return value.kind == Attr::Kind::array && value.asInts().size() == value.list.size();
  case AttrKind::any: return !value.isNone();
  case AttrKind::none: return false;
  case AttrKind::word: {
    if (value.kind != Attr::Kind::word) return false;
    return fmt::format("|{}|", row.choices).find('|' + value.text + '|') != std::string::npos;
  }
  }
  return false;
}

std::string describe(const table::AttrRow& row) {
  switch (row.kind) {
  case AttrKind::integer: return "an integer";
  case AttrKind::real: return "a number";
  case AttrKind::boolean: return "true or false";
  case AttrKind::string: return "a string";
  case AttrKind::symbol: return "a symbol";
  case AttrKind::ints: return "a list of integers";
  case AttrKind::word: return fmt::format("one of {}", row.choices);
  default: return "a value";
  }
}

/// Verifies one module, and collects all errors instead of stopping at the first. Types are inferred only where
/// attributes and operands of an op are well formed.
class Verifier {
 public:
  explicit Verifier(const Module& module) : module_(module) {}
  Result<void> run();
  Result<void> form(const Op& op) {
    TG_CHECK(verifyOperands(op));
    if (attributes(op) && operands(op)) return {};
    return std::move(errors_);
  }

 private:
  /// Collects an error. One without a location, for an op with loc(unknown), gets that of the function or kernel
  /// around it.
  void report(const Error& error) {
    for (Diagnostic each : error.diagnostics()) {
      if (!placeOf(each.loc)) each.loc = item_;
      errors_.append(Error(std::move(each)));
    }
  }
  template <class... Args>
  void report(const Loc& loc, fmt::format_string<Args...> format, Args&&... args) {
    report(failAt(loc, fmt::format(format, std::forward<Args>(args)...)));
  }
  void repetition(const Item& func);
  void schedule(const Value& arg, const Attr* host);
  void knownAttrs(const Loc& loc, std::string_view owner, const AttrList& attrs,
                  std::initializer_list<std::string_view> known);
  void storage(const Item& item);
  void function(const Item& func);
  void functionEffects(const Item& func);
  void kernelCode(const Item& item);
  void returned(const Item& func);
  void block(const Block& block, const Item& func, table::Where where);
  void op(const Op& op, const Item& func, table::Where where);
  bool attributes(const Op& op);
  bool operands(const Op& op);
  bool resultCount(const Op& op);
  void types(const Op& op);
  bool structure();

  const Module& module_;
  Loc item_;  ///< the location of the current item
  Error errors_;
};

table::Where functionPlace(const Module& module) {
  switch (module.stage) {
  // While fuse runs, a module has a target already, and regions beside ops that are not in one yet.
  case Stage::tensor:
    if (find(module.attrs, "target")) return static_cast<table::Where>(table::inTensor | table::inFused);
    return table::inTensor;
  case Stage::fused: return table::inFused;
  case Stage::planned: return table::inPlanned;
  default: return table::inDispatch;
  }
}

bool Verifier::attributes(const Op& op) {
  bool good = true;
  auto bad = [&](std::string message) {
    report(op.loc, "{} [op.attr]: {}", op.info().name, message);
    good = false;
  };
  for (const NamedAttr& attr : op.attrs) {
    const table::AttrRow* row = op.info().attr(attr.name);
    if (find(op.attrs, attr.name) != &attr.value)
      bad(fmt::format("attribute '{}' is given twice", attr.name));
    if (!row) {
      const std::string known = listText(op.info().attrs, &table::AttrRow::name);
      bad(fmt::format("unknown attribute '{}'; {}", attr.name,
                      known.empty() ? "it has none" : "known: " + known));
    } else if (!admits(*row, attr.value)) {
      const bool quoted = row->kind == AttrKind::word && attr.value.kind == Attr::Kind::string;
      bad(fmt::format("attribute '{}' is {}{}, not {}", attr.name, describe(*row),
                      quoted ? ", without quotes" : "", attr.value.str()));
    }
  }
  if (const Attr* schedule = op.code == Opcode::fused ? find(op.attrs, "schedule") : nullptr)
    if (auto formed = scheduleFor(op, *schedule); !formed) {
      report(op.loc, "tg.fused [fused.schedule]: {}", formed.error().message());
      good = false;
    }
  if (!good) return false;  // a missing attribute may be the unknown one, misspelt
  for (const table::AttrRow& row : op.info().attrs)
    if (row.fallback.empty() && !find(op.attrs, row.name))
      bad(fmt::format("attribute '{}' is required", row.name));
  return good;
}

bool Verifier::operands(const Op& op) {
  bool kernel = op.info().mayStand(table::inKernel);
  const auto& slots = op.info().slots;
  int slot = 0;
  for (const Operand& operand : op.operands) {
    if (operand.kind != Operand::Kind::value && operand.kind != Operand::Kind::literal) {
      ++slot;
      continue;
    }
    const table::Slot& row = slots[std::min(slot, slots.size() - 1)];
    if (row.kind != SlotKind::values) ++slot;
    if (row.kind == SlotKind::literal) continue;
    if (operand.isLiteral()) {
      if (kernel) continue;
      report(op.loc, "{} [op.operand]: operand '{}' must be a value; write a tg.constant", op.info().name,
             row.name);
      return false;
    }
    if (!admits(row.type, operand.value->type.dtype)) {
      report(failAt(op.loc, "{} [op.operand]: operand '{}' is {}, not {}", op.info().name, row.name,
                    operand.value->type.str(), describe(row.type, kernel))
                 .note(operand.value->loc, "%{} is defined here", operand.value->name));
      return false;
    }
    if (!kernel && !operand.value->type.isTensor()) {
      report(op.loc, "{} [op.operand]: operand '{}' is {}, not a tensor", op.info().name, row.name,
             operand.value->type.str());
      return false;
    }
  }
  return true;
}

bool Verifier::resultCount(const Op& op) {
  const table::Results& wanted = op.info().results;
  const int given = static_cast<int>(op.results.size()), least = wanted.count - wanted.optional;
  if (wanted.variadic || (given >= least && given <= wanted.count)) return true;
  report(op.loc, "{} [op.result]: has {}{}, not {}", op.info().name,
         wanted.optional ? fmt::format("{} to ", least) : "", countText(wanted.count, "result"), given);
  return false;
}

void Verifier::types(const Op& op) {
  if (!resultCount(op)) return;
  if (!op.groups.empty() && op.code != Opcode::fused)
    return report(op.loc, "{} [op.result]: only tg.fused has groups of results", op.info().name);
  Result<std::vector<Type>> inferred = infer(op, &module_);
  if (!inferred) return report(inferred.takeError());
  if (inferred->size() != op.results.size())
    return report(op.loc, "{} [op.result]: has {}, not {}", op.info().name,
                  countText(inferred->size(), "result"), op.results.size());
  for (size_t i = 0; i < op.results.size(); ++i)
    if (!((*inferred)[i] == op.results[i]->type))
      report(op.loc, "{} [op.result]: result %{} is {}, not {}", op.info().name, op.results[i]->name,
             (*inferred)[i].str(), op.results[i]->type.str());
}

void Verifier::op(const Op& op, const Item& func, table::Where where) {
  if (!op.info().mayStand(where)) {
    std::string_view place = where == table::inRegion   ? "a tg.fused region"
                             : where == table::inKernel ? "a kernel"
                                                        : "a function";
    const std::string_view own = op.info().name;
    const OpInfo* twin = where == table::inKernel && own.starts_with("tg.")
                             ? findOp(fmt::format("tgk.{}", own.substr(3)))
                             : nullptr;
    return report(op.loc, "{} [op.stage]: not allowed in {} at stage {}{}", op.info().name, place,
                  name(module_.stage), twin ? fmt::format("; kernels have {}", twin->name) : "");
  }
  bool good = attributes(op);
  good = operands(op) && good;
  const size_t before = errors_.diagnostics().size();
  for (const auto& region : op.regions)
    block(*region, func, op.code == Opcode::fused ? table::inRegion : where);
  // The results of an op with regions are inferred from the regions.
  if (good && errors_.diagnostics().size() == before) types(op);
}

void Verifier::block(const Block& block, const Item& func, table::Where where) {
  for (const Op* current : block.ops) {
    if (current->info().has(table::terminator) && current->next())
      report(current->next()->loc, "{} [op.end]: an op follows it", current->info().name);
    op(*current, func, where);
  }
}

void Verifier::returned(const Item& func) {
  const Op* last = func.body.terminator();
  if (!last || last->code != Opcode::return_)
    return report(func.loc, "func @{} [func.return]: it does not end with return", func.name);
  if (last->operands.size() != func.results.size())
    return report(last->loc, "return [return.c1]: @{} has {}, {}", func.name,
                  countText(func.results.size(), "result"),
                  countText(last->operands.size(), "is returned", "are returned"));
  for (size_t i = 0; i < func.results.size(); ++i) {
    if (!last->in(static_cast<int>(i))) continue;  // a literal, which is checked as an operand
    if (!(last->in(static_cast<int>(i))->type == func.results[i].type))
      report(last->loc, "return [return.c1]: result '{}' is {}, %{} is {}", func.results[i].name,
             func.results[i].type.str(), last->in(static_cast<int>(i))->name,
             last->in(static_cast<int>(i))->type.str());
  }
}

/// Checks that effects with a name have different names within a function.
void Verifier::functionEffects(const Item& func) {
  std::set<std::pair<Opcode, std::string>> seen;
  std::map<std::string, std::vector<std::vector<int64_t>>> updated;  // ranges of rows, by the symbol's name
  for (Op* op : func.body.ops) {
    std::string key;
    if (op->code == Opcode::constant && as::constant(*op).seed()) {
      if (!seen.insert({op->code, key}).second)
        report(op->loc, "tg.constant [constant.c3]: @{} has a second seed", func.name);
      continue;
    }
    if (op->code == Opcode::update && namesRows(*op)) {
      // A second update of a symbol is allowed for other rows.
      std::vector<int64_t> rows = rowsNamed(*op);
      if (rows.size() != 2) continue;  // reported elsewhere
      auto& before = updated[op->operands[0].text];
      const bool apart = std::ranges::none_of(before, [&](const std::vector<int64_t>& other) {
        return rows[0] < other[1] && other[0] < rows[1];
      });
      if (apart && !seen.contains({op->code, op->operands[0].text})) {
        before.push_back(std::move(rows));
        continue;
      }
    }
    if (op->code == Opcode::update && updated.contains(op->operands[0].text))
      seen.insert({op->code, op->operands[0].text});
    if (op->code == Opcode::update || op->code == Opcode::param_grad)
      key = op->operands[0].text;
    else if (const Attr* given = find(op->attrs, "name"); given && op->code == Opcode::capture)
      key = given->text;
    else
      continue;
    if (seen.insert({op->code, key}).second) continue;
    if (op->code == Opcode::capture)
      report(op->loc, "tg.capture [capture.c1]: '{}' is captured twice in @{}", key, func.name);
    else
      report(op->loc, "{} [{}.c3]: @{} has a second {} in @{}", op->info().name, op->info().name.substr(3),
             key, op->code == Opcode::update ? "update" : "gradient", func.name);
  }
  std::set<std::string> results;
  for (const NamedType& result : func.results)
    if (!results.insert(result.name).second)
      report(func.loc, "func @{} [func.result]: it has two results named '{}'", func.name, result.name);
}

void Verifier::function(const Item& func) {
  knownAttrs(func.loc, "@" + func.name, func.attrs, {"every", "optimizer"});
  if (const Attr* kind = find(func.attrs, "optimizer");
      kind && (kind->kind != Attr::Kind::string || kind->text.empty()))
    report(func.loc, "@{}: attribute 'optimizer' is a name in quotes, not {}", func.name, kind->str());
  repetition(func);
  for (const auto& arg : func.body.args) {
    if (!arg->type.isTensor())
      report(arg->loc, "argument %{} is {}, not a tensor", arg->name, arg->type.str());
    knownAttrs(arg->loc, "%" + arg->name, arg->attrs, {"host", "schedule", "batch", "dims"});
    const Attr* host = find(arg->attrs, "host");
    schedule(*arg, host);
    if (!host) continue;
    const bool number = host->text == "lr" || host->text == "loss_scale";
    if (!number && host->text != "rng")
      report(arg->loc,
             "%{} is not a host scalar: known are \"lr\" tensor<f32>, \"rng\" tensor<2xi32>, \"loss_scale\" "
             "tensor<f32>",
             arg->name);
    else if (const Type due = number ? Type::tensor(DType::f32, {}) : Type::tensor(DType::i32, {2});
             arg->type != due)
      report(arg->loc, "%{}: the host scalar \"{}\" is {}, not {}", arg->name, host->text, due.str(),
             arg->type.str());
  }
  block(func.body, func, functionPlace(module_));
  returned(func);
  functionEffects(func);
}

/// Checks a kernel, or a func that kernels call: first the form of its ops, then the kernel verifier's rules.
void Verifier::kernelCode(const Item& item) {
  const size_t before = errors_.diagnostics().size();
  const bool kernel = item.kind == ItemKind::kernel;
  const std::string_view room = kernel ? "kernel" : "kernel-func";
  for (const NamedAttr& attr : item.attrs)
    if (find(item.attrs, attr.name) != &attr.value)
      report(item.loc, "@{} [{}.attr]: attribute '{}' is given twice", item.name, room, attr.name);
    else if (attr.name != "vjp" || attr.value.kind != Attr::Kind::symbol)
      report(item.loc, "@{} [{}.attr]: unknown attribute '{}'; known: vjp = @name", item.name, room,
             attr.name);
  for (Op* each : item.body.ops)
    if (kernel || each->code != Opcode::return_)
      op(*each, item, table::inKernel);
    else if (attributes(*each))
      resultCount(*each);
  if (errors_.diagnostics().size() != before) return;  // the rest relies on well-formed ops
  auto checked = kernel ? verifyKernel(item) : verifyKernelFunc(item);
  if (checked && kernel && module_.stage < Stage::kernel) checked = verifyKernelWrites(item);
  if (!checked) report(checked.takeError());
  if (auto named = verifyKernelSymbols(item, module_); !named) report(named.takeError());
}

/// Checks a function that the host calls after every n-th step: its arguments must all be filled by the host.
void Verifier::repetition(const Item& func) {
  const Attr* every = find(func.attrs, "every");
  if (!every) return;
  if (every->kind != Attr::Kind::integer || every->integer < 1)
    report(func.loc, "@{}: attribute 'every' is a number of steps from 1 on, not {}", func.name,
           every->str());
  for (const auto& arg : func.body.args)
    if (!find(arg->attrs, "host"))
      report(arg->loc, "%{} is not a host scalar; @{} runs by itself every {} steps", arg->name, func.name,
             every->str());
}

void Verifier::schedule(const Value& arg, const Attr* host) {
  const Attr* written = find(arg.attrs, "schedule");
  if (!written) return;
  if (!host || host->text != "lr")
    return report(arg.loc, "%{}: a schedule belongs to a host scalar \"lr\"", arg.name);
  if (auto checked = checkRateSchedule(*written); !checked)
    report(arg.loc, "%{}: {}", arg.name, checked.error().message());
}

void Verifier::knownAttrs(const Loc& loc, std::string_view owner, const AttrList& attrs,
                          std::initializer_list<std::string_view> known) {
  for (const NamedAttr& attr : attrs) {
    if (find(attrs, attr.name) != &attr.value)
      report(loc, "{}: attribute '{}' is given twice", owner, attr.name);
    if (attr.value.isNone()) report(loc, "{}: attribute '{}' has no value", owner, attr.name);
    if (!contains(known, attr.name))
      report(loc, "{}: unknown attribute '{}'; known: {}", owner, attr.name, fmt::join(known, ", "));
  }
}

void Verifier::storage(const Item& item) {
  if (!item.type.isTensor()) return report(item.loc, "@{} is {}, not a tensor", item.name, item.type.str());
  if (item.kind == ItemKind::param)
    knownAttrs(item.loc, "@" + item.name, item.attrs, {"init", "decay", "dims"});
  else
    knownAttrs(item.loc, "@" + item.name, item.attrs, {"init", "part_of", "dims"});
  if (const Attr* whole = find(item.attrs, "part_of");
      whole && item.kind == ItemKind::state && !wholeOf(item))
    report(
        item.loc,
        "@{}: attribute 'part_of' is the shape of a whole that parts like {} make, one of each rank, not {}",
        item.name, item.type.str(), whole->str());
  if (const Attr* decay = find(item.attrs, "decay");
      decay && item.kind == ItemKind::param && decay->kind != Attr::Kind::boolean)
    report(item.loc, "@{}: attribute 'decay' is true or false, not {}", item.name, decay->str());
  const Attr* init = find(item.attrs, "init");
  if (!init && item.kind == ItemKind::param && !isFloat(item.type.dtype))
    return report(
        item.loc,
        "@{}: a param of {} needs an init, as zeros; without one it is randn(0.02), which is of floats",
        item.name, name(item.type.dtype));
  if (!init) return;
  constexpr size_t kShown = 8;  // values that the message lists
  const auto wrong = [&](std::string_view why) {
    const size_t count = init->list.size();
    report(item.loc, "@{}: init = {}: {}", item.name,
           count > kShown ? fmt::format("{} of {} values", init->text, count) : init->str(), why);
  };
  const bool named = init->kind == Attr::Kind::word || init->kind == Attr::Kind::call;
  if (!named) return wrong("expected a kind, as randn(0.02)");
  if (item.kind == ItemKind::state && init->text != "constant") return wrong("a state has constant(v)");
  const Result<std::vector<double>> numbers = initNumbers(*init);
  if (!numbers) return wrong(numbers.error().message());
  if (init->text != "dense") {
    if (auto kind = initKind(init->text, item.type, *numbers); !kind) return wrong(kind.error().message());
  } else if (static_cast<int64_t>(numbers->size()) != item.type.elements()) {
    return report(item.loc, "@{}: dense has {} for {}", item.name, countText(numbers->size(), "value"),
                  item.type.str());
  }
  if (init->text != "dense" && init->text != "constant") return;
  for (const Attr& value : init->list)
    if (!represents(value.number(), item.type.dtype))
      return wrong(fmt::format("{} is not a value of type {}", value.str(), name(item.type.dtype)));
}

/// Checks the structure; false if the other checks cannot run.
bool Verifier::structure() {
  if (auto names = verifyNames(module_); !names) report(names.takeError());
  for (const auto& item : module_.items) {
    item_ = item->loc;
    if (auto formed = verifyStructure(*item, module_); !formed) report(formed.takeError());
  }
  return errors_.empty();
}

Result<void> Verifier::run() {
  if (!structure()) return std::move(errors_);
  knownAttrs(module_.loc, "module @" + module_.name, module_.attrs, {"target", "plan", "train_pipeline"});
  if (auto target = targetOf(module_.attrs); !target)
    report(module_.loc, "module @{} [module.target]: {}", module_.name, target.error().message());
  if (auto named = verifyDims(module_); !named) report(named.takeError());
  for (const auto& item : module_.items) {
    item_ = item->loc;
    switch (item->kind) {
    case ItemKind::param:
    case ItemKind::state: storage(*item); break;
    case ItemKind::func: isKernelFunc(*item) ? kernelCode(*item) : function(*item); break;
    case ItemKind::kernel: kernelCode(*item); break;
    case ItemKind::buffer:
      if (module_.stage < Stage::planned)
        report(item->loc, "@{}: a buffer is not allowed at stage {}", item->name, name(module_.stage));
      break;
    case ItemKind::binary:
      if (module_.stage != Stage::spirv)
        report(item->loc, "@{}: a binary is not allowed at stage {}", item->name, name(module_.stage));
      break;
    }
  }
  item_ = module_.loc;
  if (auto calls = verifyKernelCalls(module_); !calls) report(calls.takeError());
  if (!errors_.empty()) return std::move(errors_);
  if (module_.stage >= Stage::planned) return verifyPlan(module_);
  return {};
}

}  // namespace

Result<void> verify(const Module& module) { return Verifier(module).run(); }
Result<void> verifyForm(const Op& op) { return Verifier(Module{}).form(op); }

}  // namespace tg
