// SPDX-License-Identifier: Apache-2.0
// Checks the symbols that kernels and their helper funcs name: the funcs that they call, and the gradients that they
// declare by `vjp`.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/infer.h"
#include "ir/kernel/infer_detail.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tg {
namespace {

using kernel_inference::violation;

/// Verifies the symbols of one kernel or func.
class SymbolVerifier {
 public:
  SymbolVerifier(const Item& item, const Module& module) : item_(item), module_(module) {}
  Result<void> run();

 private:
  void call(const Op& op);
  void results(const Op& op, const Item& callee);
  void kernelVjp(const std::string& name);
  void gradientParameter(const Value& param);
  void matches(const Value& param, const Value& primal, bool gradient);
  void funcVjp(const std::string& name);

  void report(Error error) { errors_.append(std::move(error)); }
  void vjpError(const std::string& why) {
    report(failAt(item_.loc, "{} @{} [{}.vjp]: {}", name(item_.kind), item_.name,
                  item_.kind == ItemKind::kernel ? "kernel" : "kernel-func", why));
  }

  const Item& item_;
  const Module& module_;
  Error errors_;
};

Result<void> SymbolVerifier::run() {
  walk(item_.body, [&](Op& op) {
    if (op.code == Opcode::k_call) call(op);
  });
  if (const Attr* vjp = find(item_.attrs, "vjp"))
    item_.kind == ItemKind::kernel ? kernelVjp(vjp->text) : funcVjp(vjp->text);
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

/// Checks a call: the func exists, and takes and returns the types of the call.
void SymbolVerifier::call(const Op& op) {
  const std::string& name = op.operands[0].text;
  const Item* callee = module_.kernelFunc(name);
  if (!callee) {
    std::vector<const Item*> known;
    for (const auto& item : module_.items)
      if (isKernelFunc(*item)) known.push_back(item.get());
    return report(violation(op, "c1", "there is no func @{} of kernel scalars; the module has {}", name,
                            namesOf(known)));
  }
  const auto& args = callee->body.args;
  if (op.operands.size() - 1 != args.size())
    return report(violation(op, "c2", "@{} takes {}, not {}", name, countText(args.size(), "input"),
                            op.operands.size() - 1));
  for (size_t index = 0; index < args.size(); ++index) {
    const Operand& input = op.operands[index + 1];
    const Type& wanted = args[index]->type;
    if (input.value ? input.value->type == wanted : represents(input, wanted.dtype)) continue;
    return report(violation(op, "c2", "%{} of @{} is {}, the input {}", args[index]->name, name, wanted.str(),
                            input.value ? input.value->type.str() : "a literal"));
  }
  results(op, *callee);
}

void SymbolVerifier::results(const Op& op, const Item& callee) {
  if (op.results.size() != callee.results.size())
    return report(violation(op, "c2", "@{} has {}, not {}", callee.name,
                            countText(callee.results.size(), "result"), op.results.size()));
  for (size_t index = 0; index < op.results.size(); ++index)
    if (op.results[index]->type != callee.results[index].type)
      return report(violation(op, "c2", "result '{}' of @{} is {}, not {}", callee.results[index].name,
                              callee.name, callee.results[index].type.str(), op.results[index]->type.str()));
}

/// Checks a kernel's own gradient, which is bound by parameter names: `x` reads a value of the kernel, `d_x` is the
/// cotangent of a result or the gradient of an input, `tape` parameters are scratch.
void SymbolVerifier::kernelVjp(const std::string& name) {
  const Item* gradient = module_.find(ItemKind::kernel, name);
  if (!gradient) return vjpError(fmt::format("there is no kernel @{}", name));
  for (const auto& param : gradient->body.args)
    if (param->type.isBuffer() && param->type.mode != BufMode::tape) gradientParameter(*param);
}

void SymbolVerifier::gradientParameter(const Value& param) {
  if (const Value* primal = item_.arg(param.name)) return matches(param, *primal, false);
  const Value* primal = param.name.starts_with("d_") ? item_.arg(param.name.substr(2)) : nullptr;
  if (primal) return matches(param, *primal, true);
  const std::string known = listText(
      item_.body.args, [](const auto& arg) { return fmt::format("%{0} %d_{0}", arg->name); }, " ");
  vjpError(fmt::format("its gradient's parameter %{} is none of {}, nor a tape", param.name, known));
}

/// The modes that a gradient's parameter may have, for the mode of the kernel's own parameter.
std::vector<BufMode> gradientModes(BufMode primal, bool gradient) {
  if (primal == BufMode::tape) return {};
  if (!gradient) return {BufMode::in};
  if (primal == BufMode::in) return {BufMode::out, BufMode::accum};
  return {primal == BufMode::inout ? BufMode::inout : BufMode::in};
}

/// Checks a parameter of a gradient that reads the kernel's parameter `primal`, or holds its gradient: mode, element
/// type and extents.
void SymbolVerifier::matches(const Value& param, const Value& primal, bool gradient) {
  const Type &type = param.type, &of = primal.type;
  auto complain = [&](const std::string& why) {
    vjpError(fmt::format("its gradient's parameter %{} {}", param.name, why));
  };
  if (!of.isBuffer()) return;
  if (gradient && !isFloat(of.dtype))
    return complain(fmt::format("is for %{}, which is {} and has no gradient", primal.name, of.str()));
  std::vector<BufMode> modes = gradientModes(of.mode, gradient);
  if (modes.empty()) return complain(fmt::format("is for %{}, a tape, whose contents are lost", primal.name));
  if (!contains(modes, type.mode))
    return complain(fmt::format("is `{}`, not `{}`{}", tg::name(type.mode), tg::name(modes[0]),
                                modes.size() > 1 ? " or `accum`" : ""));
  DType dtype = gradient ? DType::f32 : of.dtype;
  bool same = type.dtype == dtype && type.lanes == of.lanes && type.rank() == of.rank();
  for (int axis = 0; same && axis < of.rank(); ++axis)
    same = type.shape[axis] == of.shape[axis] || type.shape[axis] == Shape::kDynamic ||
           of.shape[axis] == Shape::kDynamic;
  if (!same)
    complain(fmt::format("is {}, %{} is {}{}", type.str(), primal.name, of.str(),
                         gradient && of.dtype != DType::f32 ? "; gradients are f32" : ""));
}

/// Checks the gradient of a func: it takes the func's arguments and the cotangents of its float results, and returns
/// the gradients of its float arguments. These are bound by position; a name that belongs to another position would
/// give wrong gradients without a word.
void SymbolVerifier::funcVjp(const std::string& name) {
  const Item* gradient = module_.kernelFunc(name);
  if (!gradient) return vjpError(fmt::format("there is no func @{} of kernel scalars", name));
  std::vector<NamedType> inputs, results, givenInputs;
  for (const auto& arg : item_.body.args) {
    inputs.push_back({arg->name, arg->type});
    if (isFloat(arg->type.dtype)) results.push_back({"d_" + arg->name, arg->type});
  }
  for (const NamedType& result : item_.results)
    if (isFloat(result.type.dtype)) inputs.push_back({"d_" + result.name, result.type});
  for (const auto& arg : gradient->body.args) givenInputs.push_back({arg->name, arg->type});
  auto list = [](const std::vector<NamedType>& each) {
    return listText(each, [](const NamedType& one) { return one.type.str(); });
  };
  if (!std::ranges::equal(givenInputs, inputs, {}, &NamedType::type, &NamedType::type) ||
      !std::ranges::equal(gradient->results, results, {}, &NamedType::type, &NamedType::type))
    return vjpError(
        fmt::format("@{} is ({}) -> ({}), not ({}) -> ({}): arguments, cotangents of the float results, "
                    "then the gradients of the float arguments",
                    name, list(givenInputs), list(gradient->results), list(inputs), list(results)));
  auto inPlace = [&](const std::vector<NamedType>& given, const std::vector<NamedType>& expected) {
    for (size_t at = 0; at < given.size(); ++at)
      if (given[at].name != expected[at].name &&
          std::ranges::find(expected, given[at].name, &NamedType::name) != expected.end())
        return vjpError(
            fmt::format("@{} has {} in the place of {}", name, given[at].name, expected[at].name));
  };
  inPlace(givenInputs, inputs);
  inPlace(gradient->results, results);
}

}  // namespace

Result<void> verifyKernelSymbols(const Item& item, const Module& module) {
  return SymbolVerifier(item, module).run();
}

}  // namespace tg
