// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/exec_each.h"

#include <cstdio>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ir/target.h"
#include "ir/text.h"
#include "ir/work.h"
#include "runtime/check/oracle.h"
#include "runtime/check/random_point.h"
#include "runtime/interp_runner.h"

namespace tg {

namespace {

constexpr uint64_t kSeed = 0;
constexpr double kMostWork = 1e9;  ///< of a function; the interpreter takes some seconds for a call

constexpr double kWorkOfInput = 32;  ///< operations to make an element of an argument, a param or a state

/// The floor of wholeFunctionClose for kernels. They sum in f32, and the oracle in f64: where terms cancel out, what they
/// round is much more than what the oracle does.
constexpr double kKernelFloor = 0x1p-11;

/// The elements of all arguments, params and states.
double elementsOf(const Item& func, const Module& module) {
  double out = 0;
  for (const auto& arg : func.body.args) out += static_cast<double>(arg->type.elements());
  for (const auto& item : module.items)
    if (isStorage(item->kind)) out += static_cast<double>(item->type.elements());
  return out;
}

/// The number of f16 and bf16 values that a function's ops compute.
int64_t narrowValues(const Item& func) {
  int64_t out = 0;
  for (const Op* op : func.body.ops)
    out +=
        std::ranges::count_if(op->results, [](const auto& result) { return isNarrow(result->type.dtype); });
  return out;
}

/// A kind and a name of ResultCheck.
using Left = std::pair<std::string, std::string>;

/// What a call leaves. Of params and states, those that it has changed.
std::vector<Left> leftBy(const InterpCall& call, const Module& module, const NamedArrays& before) {
  std::vector<Left> out;
  for (const auto& [name, value] : call.result().results) out.emplace_back("result", name);
  for (const auto& [name, value] : call.result().captures) out.emplace_back("capture", name);
  for (const auto& [name, value] : call.result().paramGrads) out.emplace_back("gradient", name);
  for (const auto& [item, value] : before) {
    const std::string kind(name(module.storage(item)->kind));
    if (call.value(kind, item)->data != toNdArray(value).data) out.emplace_back(kind, item);
  }
  return out;
}

/// Whether a call of `before` is one of `after`, which may have more arguments and results.
bool hasSignature(const Item& after, const Item& before) {
  return std::ranges::all_of(before.body.args,
                             [&](const auto& arg) {
                               const Value* same = after.arg(arg->name);
                               return same && same->type == arg->type;
                             }) &&
         std::ranges::all_of(before.results, [&](const auto& result) {
           return std::ranges::any_of(after.results, [&](const auto& same) {
             return same.name == result.name && same.type == result.type;
           });
         });
}

/// A function, how it was called before a pass, and what that left.
struct Before {
  std::shared_ptr<const Module> rounded;
  std::shared_ptr<const Module>
      module;  ///< the same, in stages tensor and fused without a product that rounds
  std::string function;
  NamedArrays storage = {};
  Inputs inputs = {};
  uint32_t subgroup = 0;
  std::optional<Oracle> oracle = {};
  std::vector<Left> left = {};

  CallPoint point() const { return {*module, function, storage, inputs, subgroup}; }
  const Item& func() const { return *module->func(function); }
};

class ExecEach {
 public:
  /// Takes the module before the first pass.
  void begin(const Module& module) {
    if (std::exchange(begun_, true)) return;
    for (const Item* func : functionsOf(module)) learn(*func, module);
  }

  /// Compares the module after a pass with what is known, which it then adds to.
  Result<void> check(const PipelineStep& step, const Module& module) {
    current_ = nullptr;
    for (const Item* func : functionsOf(module)) {
      const auto known = known_.find(func->name);
      if (known == known_.end()) {
        learn(*func, module);
      } else if (!hasSignature(*func, known->second->func()) || !hasStorage(module, *known->second)) {
        note(*func, fmt::format("is not compared across {}, which changes types", step.pass->name));
        known_.erase(known);
        learn(*func, module);
      } else if (known->second->oracle) {
        TG_CHECK(compare(*known->second, *func, module));
      }
    }
    return {};
  }

 private:
  static std::vector<const Item*> functionsOf(const Module& module) {
    std::vector<const Item*> out;
    for (const auto& item : module.items)
      if (item->kind == ItemKind::func && !isKernelFunc(*item)) out.push_back(item.get());
    return out;
  }

  /// Whether the module has all params and states of a call that it has at all with the same types.
  static bool hasStorage(const Module& module, const Before& before) {
    return std::ranges::all_of(before.storage, [&](const auto& value) {
      const Item* item = module.storage(value.first);
      return !item || item->type == value.second.type();
    });
  }

  static uint32_t subgroupOf(const Module& module) {
    const auto target = targetOf(module.attrs);
    return target && target->subgroup > 1 ? static_cast<uint32_t>(target->subgroup)
                                          : KernelRunOptions{}.subgroupSize;
  }

  void note(const Item& func, const std::string& what) {
    if (noted_.insert(func.name + what).second)
      fmt::print(stderr, "note: --exec-each: @{} {}\n", func.name, what);
  }

  /// A call of a function of the module at hand, which has no values yet.
  Before callOf(const Item& func, const Module& module) {
    if (!current_) {
      current_ = clone(module);
      unrounded_ = module.stage < Stage::planned ? unrounded(module) : current_;
    }
    return {current_, unrounded_, func.name};
  }

  /// A copy of a module whose products do not round what they multiply. As casts round nothing in f64 either, passes that
  /// make values 16-bit, or casts of what a product rounds, change no result.
  static std::shared_ptr<const Module> unrounded(const Module& module) {
    std::shared_ptr<Module> copy = clone(module);
    for (const Item* func : functionsOf(*copy))
      walk(func->body, [](Op& op) {
        if (op.code == Opcode::matmul) tg::erase(op.attrs, "precision");
      });
    return copy;
  }

  /// Gives a call random values, or those of a call before it.
  static Result<void> fill(Before& call, const Item& func, const Before* before) {
    TG_TRY(call.storage, randomStorage(*call.module, kSeed));
    TG_TRY(call.inputs, randomInputs(func, {}, kSeed));
    call.subgroup =
        before && call.module->stage < Stage::kernel ? before->subgroup : subgroupOf(*call.module);
    if (!before) return {};
    for (auto& [name, value] : call.storage)
      if (const HostArray* known = named(before->storage, name)) value = *known;
    for (auto& [name, value] : call.inputs)
      if (const auto known = before->inputs.find(name); known != before->inputs.end()) value = known->second;
    return {};
  }

  /// Calls a function as the oracle of later passes. One that cannot be called is noted, and has no oracle.
  void learn(const Item& func, const Module& module, const Before* before = nullptr) {
    auto next = std::make_unique<Before>(callOf(func, module));
    if (auto made = makeOracle(*next, func, before); !made)
      note(func, "is not run: " + made.error().message());
    known_[func.name] = std::move(next);
  }

  static Result<void> makeOracle(Before& next, const Item& func, const Before* before) {
    const double work = workOf(func, *next.module) + kWorkOfInput * elementsOf(func, *next.module);
    if (work > kMostWork) return fail("{:.1e} operations are too many for the interpreter", work);
    TG_CHECK(fill(next, func, before));
    TG_TRY(Oracle oracle, Oracle::at(next.point(), *next.rounded));
    next.left = leftBy(oracle.wide(), *next.module, next.storage);
    next.oracle.emplace(std::move(oracle));
    return {};
  }

  Result<void> compare(Before& before, const Item& func, const Module& module) {
    Before after = callOf(func, module);
    TG_CHECK(fill(after, func, &before));
    auto call = InterpCall::run(after.point(), InterpMode::automatic);
    if (!call) {
      note(func, "is not run any more: " + call.error().message());
      before.oracle.reset();
      return {};
    }
    for (const auto& [kind, name] : before.left) {
      const std::optional<NdArray> value = call->value(kind, name);
      if (!value || value->data == before.oracle->wide().value(kind, name)->data) continue;
      // Kernels sum in f32, and a real that is rounded to an integer may be rounded to the next one.
      if (module.stage >= Stage::kernel && !isFloat(value->type.dtype)) continue;
      const double floor = module.stage < Stage::kernel ? kWholeFunctionFloor : kKernelFloor;
      TG_TRY(const ResultCheck check, before.oracle->judge(kind, name, *value, floor));
      if (!check.close)
        return failAt(func.loc, "@{}: {} {} {} differs: {}", func.name, kind, name, check.type.str(),
                      check.why);
    }
    // What the pass has added, and how it rounds, counts from here on.
    const std::vector<Left> left = leftBy(*call, module, after.storage);
    const bool adds =
        std::ranges::any_of(left, [&](const Left& each) { return !contains(before.left, each); });
    const bool narrower = narrowValues(func) > narrowValues(before.func());
    if ((adds || narrower) && module.stage < Stage::planned) {
      const std::unique_ptr<Before> old = std::move(known_[func.name]);
      learn(func, module, old.get());
    }
    return {};
  }

  bool begun_ = false;
  std::map<std::string, std::unique_ptr<Before>> known_;  ///< by function
  std::shared_ptr<const Module> current_, unrounded_;  ///< copies of the module at hand, if they are needed
  std::set<std::string> noted_;
};

}  // namespace

Instrumentation execEach() {
  auto state = std::make_shared<ExecEach>();
  Instrumentation hooks;
  hooks.before = [state](const PipelineStep&, int, const Module& module) { state->begin(module); };
  hooks.check = [state](const PipelineStep& step, const Module& module) {
    return state->check(step, module);
  };
  return hooks;
}

}  // namespace tg
