// SPDX-License-Identifier: Apache-2.0
// Verifies one kernel, or one func that kernels call: scopes, declared types, uniform control flow around barriers,
// and the launch shape. Inference checks each op by itself.
#include "ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/kernel/element.h"
#include "ir/kernel/index_analysis.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/semantics.h"
#include "ir/kernel/shared_memory.h"
#include "ir/text.h"

namespace tg {
namespace {

/// Verifies one kernel or func. `body` walks the ops in text order with the values and names in scope; barriers,
/// matrices and memory are checked after that, on a kernel that is well formed.
class KernelVerifier {
 public:
  explicit KernelVerifier(const Item& kernel)
      : kernel_(kernel), room_(kernel.kind == ItemKind::func ? "kernel-func" : "kernel") {}
  Result<void> run();
  Result<void> runFunc();
  Result<void> runWrites();

 private:
  void launch();
  void parameters();
  void parameter(const Value& value);
  void arguments();
  void returned();
  void body(const Block& block);
  void leave(const Value& value);
  bool judge(const Op& op);
  bool operandsVisible(const Op& op);
  bool structure(const Op& op);
  bool bindings(const Op& op);
  bool results(const Op& op);
  void nested(const Op& op, const Block& region);
  bool scalarType(const Op& op, const Type& type);
  void barriers(const Block& block, const Op* divergent, const Uniformity& uniformity);
  void matrices(const Block& block, const Op* divergent, const Uniformity& uniformity);
  void rewrites();
  void memory();

  template <class... Args>
  void kernelError(std::string_view label, fmt::format_string<Args...> format, Args&&... args) {
    errors_.append(failAt(kernel_.loc, "{} @{} [{}.{}]: {}", name(kernel_.kind), kernel_.name, room_, label,
                          fmt::format(format, std::forward<Args>(args)...)));
  }
  template <class... Args>
  void opError(const Op& op, std::string_view label, fmt::format_string<Args...> format, Args&&... args) {
    errors_.append(failAt(op.loc, "{} [{}.{}]: {}", op.info().name, room_, label,
                          fmt::format(format, std::forward<Args>(args)...)));
  }

  const Item& kernel_;
  const std::string_view room_;  ///< prefix of the labels of errors
  std::unordered_set<const Value*> visible_;
  std::unordered_set<std::string> names_;  ///< of the visible values
  Error errors_;
};

Result<void> KernelVerifier::run() {
  launch();
  parameters();
  body(kernel_.body);
  if (errors_.empty()) {  // these checks rely on well-formed ops
    memory();
    barriers(kernel_.body, nullptr, Uniformity(kernel_));
    if (anyOp(kernel_.body, [](const Op& op) { return isCoopmatOp(op.code); }))
      matrices(kernel_.body, nullptr, Uniformity(kernel_, Uniformity::Scope::subgroup));
  }
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

void KernelVerifier::memory() {
  const int64_t shared = sharedBytes(kernel_), reduced = reductionBytes(kernel_), local = localBytes(kernel_);
  if (shared > kMaxSharedBytes)
    kernelError("shared", "{} bytes of shared memory{}, more than {}", shared,
                reduced ? fmt::format(", {} of them for tgk.workgroup_reduce", reduced) : "",
                kMaxSharedBytes);
  if (local > kMaxLocalBytes)
    kernelError("local", "{} bytes of local buffers for each invocation, more than {}", local,
                kMaxLocalBytes);
}

Result<void> KernelVerifier::runWrites() {
  rewrites();
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

/// A func of scalars: accesses no memory and no ids, so that its results depend on its arguments alone.
Result<void> KernelVerifier::runFunc() {
  arguments();
  body(kernel_.body);
  if (errors_.empty()) returned();
  if (!errors_.empty()) return std::move(errors_);
  return {};
}

void KernelVerifier::arguments() {
  auto check = [&](const std::string& name, const Type& type) {
    if (isNarrow(type.dtype)) kernelError("type", "{} is {}; kernels compute in f32", name, type.str());
  };
  for (const auto& arg : kernel_.body.args) {
    check("%" + arg->name, arg->type);
    visible_.insert(arg.get());
    if (!names_.insert(arg->name).second) kernelError("scope", "%{} names two values", arg->name);
  }
  for (const NamedType& result : kernel_.results) check("result " + result.name, result.type);
}

void KernelVerifier::returned() {
  const Op* last = kernel_.body.terminator();
  if (!last || last->code != Opcode::return_) return kernelError("return", "it does not end with return");
  if (last->operands.size() != kernel_.results.size())
    return opError(*last, "return", "{} for {}", countText(last->operands.size(), "value"),
                   countText(kernel_.results.size(), "result"));
  for (size_t index = 0; index < kernel_.results.size(); ++index) {
    const Operand& value = last->operands[index];
    const NamedType& wanted = kernel_.results[index];
    if (!value.value)
      opError(*last, "return", "result '{}' is a literal, not a value", wanted.name);
    else if (value.value->type != wanted.type)
      opError(*last, "return", "result '{}' is {}, %{} is {}", wanted.name, wanted.type.str(),
              value.value->name, value.value->type.str());
  }
}

/// Whether a func of scalars may contain the op: it computes, branches, loops or calls.
bool computes(Opcode code) {
  switch (code) {
  case Opcode::k_global_id:
  case Opcode::k_local_id:
  case Opcode::k_workgroup_id:
  case Opcode::k_num_workgroups:
  case Opcode::k_subgroup_size:
  case Opcode::k_subgroup_id:
  case Opcode::k_subgroup_lane: return false;
  case Opcode::k_if:
  case Opcode::k_for:
  case Opcode::k_yield: return true;
  default: return info(code).has(table::pure);
  }
}

void KernelVerifier::launch() {
  int64_t product = 1;
  for (int64_t size : kernel_.workgroup) {
    if (size < 1 || size > kMaxInvocations) return kernelError("workgroup", "a local size of {}", size);
    product *= size;
  }
  if (product > kMaxInvocations)
    kernelError("workgroup", "{} invocations, more than {}", product, kMaxInvocations);
  if (kernel_.workgroup[2] > kMaxAlongZ)
    kernelError("workgroup", "a local size of {} along z, more than {}", kernel_.workgroup[2], kMaxAlongZ);
  if (auto grid = checkGrid(kernel_); !grid) errors_.append(grid.takeError());
}

void KernelVerifier::parameters() {
  for (const auto& arg : kernel_.body.args) {
    visible_.insert(arg.get());
    parameter(*arg);
  }
}

void KernelVerifier::parameter(const Value& value) {
  const Type& type = value.type;
  auto complain = [&](const std::string& why) { kernelError("param", "%{} {}", value.name, why); };
  if (!names_.insert(value.name).second) complain("names two values");
  if (!type.isBuffer()) return complain(fmt::format("is {}, not a buffer", type.str()));
  if (type.mode == BufMode::shared || type.mode == BufMode::local)
    complain(fmt::format("is `{}`, which only tgk.{} makes", name(type.mode), name(type.mode)));
  if (type.texel && type.mode != BufMode::in) complain("is read through texels, so its mode is `in`");
  if (type.dtype == DType::i1) complain("holds bool; a buffer holds 0 and 1 as u32");
  if (isNarrow(type.dtype) && type.mode == BufMode::accum)
    complain(fmt::format("adds up in {}, which would lose what is added; sums are f32", name(type.dtype)));
  if (isNarrow(type.dtype) && type.texel)
    complain(fmt::format("is {}, which texels do not hold", name(type.dtype)));
  for (int axis = 0; axis < type.rank(); ++axis)
    if (type.shape[axis] != Shape::kDynamic && type.shape[axis] < 1)
      complain(fmt::format("has extent {} on axis {}", type.shape[axis], axis));
}

void KernelVerifier::body(const Block& block) {
  for (Op* op : block.ops) {
    bool last = op == block.ops.back();
    if (op->code == Opcode::k_yield && (!last || &block == &kernel_.body))
      opError(*op, "yield", "a yield ends a body of if or for");
    if (judge(*op))
      for (const auto& region : op->regions) nested(*op, *region);
    for (const auto& result : op->results)
      visible_.insert(result.get());  // also the results of a bad op: one error is enough
  }
  for (Op* op : block.ops)
    for (const auto& result : op->results) leave(*result);
}

void KernelVerifier::leave(const Value& value) {
  visible_.erase(&value);
  names_.erase(value.name);
}

/// Checks one op without its bodies; false if the bodies cannot be checked after that.
bool KernelVerifier::judge(const Op& op) {
  const bool func = kernel_.kind == ItemKind::func;
  if (func && op.code == Opcode::return_ && &op == kernel_.body.terminator()) return operandsVisible(op);
  if (func && isKernelOp(op.code) && !computes(op.code)) {
    opError(op, "op", "a func can use only its arguments; pass the value as an argument");
    return false;
  }
  if (isKernelOp(op.code)) return operandsVisible(op) && structure(op) && results(op);
  opError(op, "op", "this op is not allowed in a {}", func ? "func of kernel scalars" : "kernel");
  return false;
}

bool KernelVerifier::operandsVisible(const Op& op) {
  bool fine = true;
  forEachUse(op, [&](Value* value) {
    if (fine && !visible_.contains(value)) {
      opError(op, "scope", "%{} is not defined here", value ? value->name : "?");
      fine = false;
    }
  });
  return fine;
}

bool KernelVerifier::structure(const Op& op) {
  size_t regions = op.regions.size();
  if (op.code == Opcode::k_if ? regions != 1 && regions != 2
                              : regions != (op.code == Opcode::k_for ? 1u : 0u)) {
    opError(op, "body", "{} bodies", regions);
    return false;
  }
  bool yields = !op.results.empty() || (op.code == Opcode::k_for && !iterArgs(op).empty());
  for (const auto& region : op.regions)
    if (yields && !yieldOf(*region)) {
      opError(op, "body", "a body that gives results ends in a yield");
      return false;
    }
  if (op.code == Opcode::k_for) return bindings(op);
  for (const auto& region : op.regions)
    if (!region->args.empty()) {
      opError(op, "body", "a body of if has no arguments");
      return false;
    }
  return true;
}

/// Checks that the arguments of a loop's body are its index and its carried values, in order.
bool KernelVerifier::bindings(const Op& op) {
  const auto& args = op.regions[0]->args;
  const auto& carried = iterArgs(op);
  bool fine = !op.operands.empty() && args.size() == carried.size() + 1 &&
              op.operands[0].value == args[0].get() && args[0]->type == Type::scalar(DType::u32);
  for (size_t index = 0; fine && index < carried.size(); ++index)
    fine = carried[index].kind == Operand::Kind::binding && carried[index].value == args[index + 1].get();
  if (!fine) opError(op, "body", "the body's arguments are the u32 index and the carried values");
  return fine;
}

bool KernelVerifier::results(const Op& op) {
  auto types = inferKernelOp(op);
  if (!types) {
    errors_.append(types.takeError());
    return false;
  }
  if (types->size() != op.results.size()) {
    opError(op, "result", "{}, the op has {}",
            countText(op.results.size(), "result is named", "results are named"), types->size());
    return false;
  }
  for (size_t index = 0; index < types->size(); ++index) {
    const Value& result = *op.results[index];
    if (!names_.insert(result.name).second)
      opError(op, "scope", "%{} names two values in one scope", result.name);
    if (result.type != (*types)[index]) {
      opError(op, "result", "%{} is declared {}, but is {}", result.name, result.type.str(),
              (*types)[index].str());
      return false;
    }
    if (!scalarType(op, result.type)) return false;
  }
  return true;
}

bool KernelVerifier::scalarType(const Op& op, const Type& type) {
  bool memory = type.isBuffer();
  // A pair of 16-bit reals is stored as a word of shared memory, so that no device needs 16-bit types for them.
  if (memory && type.mode == BufMode::shared && isNarrow(type.dtype)) {
    if (type.lanes == 1)
      opError(op, "type", "{} does not exist in a kernel; shared {} lies in vec2 or vec4", type.str(),
              name(type.dtype));
    return type.lanes != 1;
  }
  if (type.isCoopmat()) return true;
  if (isNarrow(type.dtype) || (memory && (type.dtype == DType::i1 || type.texel))) {
    opError(op, "type", "{} does not exist in a kernel", type.str());
    return false;
  }
  return true;
}

void KernelVerifier::nested(const Op& op, const Block& region) {
  for (const auto& arg : region.args) {
    visible_.insert(arg.get());
    if (!names_.insert(arg->name).second)
      opError(op, "scope", "%{} names two values in one scope", arg->name);
  }
  body(region);
  for (const auto& arg : region.args) leave(*arg);
}

/// The first value in an operand that may differ between invocations, or null.
const Value* divergentIn(const Operand& operand, const Uniformity& uniformity) {
  if (operand.kind != Operand::Kind::binding && operand.value && !uniformity.uniform(operand.value))
    return operand.value;
  for (const Operand& item : operand.items)
    if (const Value* value = divergentIn(item, uniformity)) return value;
  return nullptr;
}

/// Adds notes: the divergent branch or loop, and the value by which its condition or bound becomes divergent.
void addDivergence(Error& error, const Op& divergent, const Uniformity& uniformity) {
  const Value* value = divergentIn(divergent.operands[0], uniformity);
  for (const char* bound : {"to", "step"})
    if (const Operand* operand = divergent.keyword(bound); operand && !value)
      value = divergentIn(*operand, uniformity);
  if (!value) return;
  error.addNote(divergent.loc, "{} by %{}, which may differ between invocations",
                divergent.code == Opcode::k_for ? "this loop is bounded" : "this branch is decided",
                value->name);
  for (const Value* source = value; source;) {
    value = source;
    source = nullptr;
    if (!value->def || !value->def->regions.empty()) break;
    for (const Operand& operand : value->def->operands)
      if (!source) source = divergentIn(operand, uniformity);
  }
  if (value->loc) error.addNote(value->loc, "%{} differs from here on", value->name);
}

/// Barriers and workgroup reductions must be in uniform control flow. `divergent` is the enclosing branch or loop
/// that is not uniform, or null.
void KernelVerifier::barriers(const Block& block, const Op* divergent, const Uniformity& uniformity) {
  for (Op* op : block.ops) {
    bool synchronizes = op->code == Opcode::k_barrier || op->code == Opcode::k_workgroup_reduce;
    if (synchronizes && divergent) {
      Error error =
          failAt(op->loc, "{} [{}.c1]: some invocations of a workgroup may not reach it", op->info().name,
                 op->code == Opcode::k_barrier ? "k_barrier" : "k_workgroup_reduce");
      addDivergence(error, *divergent, uniformity);
      errors_.append(std::move(error));
    }
    for (const auto& region : op->regions)
      barriers(*region, divergent || uniformity.entersUniformly(*op) ? divergent : op, uniformity);
  }
}

/// Cooperative matrix ops must be reached by all invocations of a subgroup, with uniform operands.
void KernelVerifier::matrices(const Block& block, const Op* divergent, const Uniformity& uniformity) {
  for (Op* op : block.ops) {
    bool given = std::ranges::all_of(op->operands, [&](const Operand& operand) {
      return operand.value && operand.value->type.isCoopmat() ? true : uniformity.uniform(operand);
    });
    if (isCoopmatOp(op->code) && (divergent || !given)) {
      const bool moves = elementOf(*op) != nullptr;
      Error error =
          failAt(op->loc, "{} [k_{}.{}]: {}", op->info().name, op->info().name.substr(4), moves ? "c5" : "c2",
                 divergent ? "some invocations of a subgroup may not reach it"
                           : "its operands may differ between invocations of a subgroup; compute the place "
                             "from tgk.subgroup_id");
      if (divergent) addDivergence(error, *divergent, uniformity);
      errors_.append(std::move(error));
    }
    for (const auto& region : op->regions)
      matrices(*region, divergent || uniformity.entersUniformly(*op) ? divergent : op, uniformity);
  }
}

/// Checks that each element of an `out` buffer is written at most once. Reports what certainly violates this;
/// violations that depend on data show when the kernel runs.
void KernelVerifier::rewrites() {
  std::vector<std::pair<const Value*, std::vector<const Op*>>> stores;
  for (const auto& arg : kernel_.body.args)
    if (arg->type.isBuffer() && arg->type.mode == BufMode::out) stores.push_back({arg.get(), {}});
  walk(kernel_.body, [&](Op& op) {
    if (op.code != Opcode::k_store && op.code != Opcode::k_exact_store) return;
    for (auto& [buffer, all] : stores)
      if (op.operands.back().value == buffer) all.push_back(&op);
  });
  IndexAnalysis indices(kernel_);
  for (const auto& [buffer, all] : stores) {
    // The store to report: one that repeats by itself, else the last of those that repeat together.
    const Op* repeated = nullptr;
    for (const Op* store : all)
      if (!repeated && indices.certainlyRepeats({store})) repeated = store;
    const bool together = !repeated && all.size() > 1 && indices.certainlyRepeats(all);
    if (together) repeated = all.back();
    if (repeated)
      opError(*repeated, "out", "{} an element of %{} more than once; what is written again is `inout`",
              together ? "writes, with the stores before it," : "writes", buffer->name);
  }
}

}  // namespace

Result<void> verifyKernel(const Item& kernel) { return KernelVerifier(kernel).run(); }
Result<void> verifyKernelWrites(const Item& kernel) { return KernelVerifier(kernel).runWrites(); }
Result<void> verifyKernelFunc(const Item& func) { return KernelVerifier(func).runFunc(); }

}  // namespace tg
