// SPDX-License-Identifier: Apache-2.0
#include "passes/kernel/vjp.h"

#include <algorithm>

#include "ir/infer.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/rewrites.h"
#include "ir/kernel/shared_memory.h"
#include "ir/verify.h"
#include "passes/kernel/adjoint.h"
#include "passes/kernel/effects.h"
#include "passes/kernel/simplify.h"
#include "passes/kernel/vjp_steps.h"

namespace tg {

namespace {

using Role = KernelVjpParam::Role;

/// Builds the VJP kernel.
class VjpMaker {
 public:
  VjpMaker(const Module& module, std::shared_ptr<Item> source, const KernelVjpRequest& request)
      : module_(module), source_(std::move(source)), request_(request) {}

  Result<KernelVjp> run();

 private:
  Value* parameter(const Value* primal, Role role, Type type, const std::string& hint);
  void mapGrid();
  void readExtentsElsewhere();
  void settleModes();
  Result<KernelVjp> finish(const Replay& replay);

  const Module& module_;
  std::shared_ptr<Item> source_;
  const KernelVjpRequest& request_;
  std::vector<const Value*> wrt_, of_;
  std::unique_ptr<Item> made_;
  std::unique_ptr<KernelBuilder> builder_;
  std::unordered_map<const Value*, Value*> primal_, adjoint_;
  std::unordered_map<const Value*, KernelVjpParam> roles_;  ///< of the VJP's parameters
};

/// Whether a kernel reads the old value when it writes an element of the buffer.
bool takesOldValues(const KernelFacts& facts, const Value* buffer) {
  bool takes = false;
  walk(facts.kernel().body,
       [&](Op& op) { takes |= writesElement(op) && elementOf(op)->value == buffer && !op.results.empty(); });
  return takes;
}

Value* VjpMaker::parameter(const Value* primal, Role role, Type type, const std::string& hint) {
  Value* made = builder_->parameter(type, hint);
  made->loc = primal->loc;
  roles_[made] = {role, primal->name};
  return made;
}

/// The parameters that the request names, or all that are possible if it names none.
Result<void> resolve(const Item& kernel, const std::vector<std::string>& names, bool inputs,
                     std::vector<const Value*>& out) {
  auto fits = [&](const Value& arg) {
    BufMode mode = arg.type.mode;
    return mode == BufMode::inout ||
           (inputs ? mode == BufMode::in : mode == BufMode::out || mode == BufMode::accum);
  };
  if (names.empty()) {
    for (const auto& arg : kernel.body.args)
      if (isFloat(arg->type.dtype) && fits(*arg)) out.push_back(arg.get());
    return {};
  }
  std::string_view which = inputs ? "wrt" : "of", modes = inputs ? "in or inout" : "out, inout or accum";
  for (const std::string& name : names) {
    const Value* arg = kernel.arg(name);
    if (!arg) {
      std::string known;
      for (const auto& each : kernel.body.args) known += (known.empty() ? "%" : ", %") + each->name;
      return failAt(kernel.loc, "kernel-vjp [kernel-vjp.c2]: {} names %{}, but @{} has {}", which, name,
                    kernel.name, known);
    }
    if (!isFloat(arg->type.dtype))
      return failAt(arg->loc ? arg->loc : kernel.loc,
                    "kernel-vjp [kernel-vjp.c3]: {} names %{}, which holds {}, not a float", which, name,
                    tg::name(arg->type.dtype));
    if (!fits(*arg))
      return failAt(arg->loc ? arg->loc : kernel.loc,
                    "kernel-vjp [kernel-vjp.c4]: {} names %{}, whose mode is {}, not {}", which, name,
                    tg::name(arg->type.mode), modes);
    addOnce(out, arg);
  }
  return {};
}

/// The least shared memory of a workgroup on any device with Vulkan, in bytes.
constexpr int64_t kSharedBytesEverywhere = 16384;

/// The bytes of shared memory that refills may use besides the adjoints of shared buffers and reductions. All together take
/// no more than the kernel does, or than every device has.
int64_t sharedBytesLeft(const KernelFacts& facts, const Activity& activity) {
  int64_t adjoints = 0;
  walk(facts.kernel().body, [&](Op& op) {
    if (op.code != Opcode::k_shared || !activity.active(op.result())) return;
    adjoints += AdjointMemory::adjointType(op.result()->type, BufMode::shared).bytes();
  });
  return std::max(sharedBytes(facts.kernel()), kSharedBytesEverywhere) - adjoints -
         reductionBytes(facts.kernel());
}

/// Declares the parameters, sweeps forward and backward, removes dead code, and finishes.
Result<KernelVjp> VjpMaker::run() {
  TG_CHECK(resolve(*source_, request_.wrt, true, wrt_));
  TG_CHECK(resolve(*source_, request_.of, false, of_));
  if (request_.checkpoint > 0) stripMine(*source_, request_.checkpoint);
  KernelFacts facts(*source_);
  Activity activity(*source_, wrt_, of_);
  TG_CHECK(checkDifferentiable(facts, activity));

  made_ = std::make_unique<Item>();
  made_->kind = ItemKind::kernel;
  made_->name = request_.name.empty() ? source_->name + ".vjp" : request_.name;
  made_->loc = derivedLoc("vjp", source_->loc);
  made_->workgroup = source_->workgroup;
  builder_ = std::make_unique<KernelBuilder>(made_.get());
  for (const auto& arg : source_->body.args) {
    Type type = arg->type;
    bool scratch = type.mode == BufMode::accum && takesOldValues(facts, arg.get());
    if (facts.isMutable(arg.get()) && (type.mode == BufMode::inout || scratch))
      type.mode = BufMode::tape;  // a copy that only its own loads use; see settleModes
    else if (type.mode != BufMode::tape)
      type.mode = BufMode::in;
    primal_[arg.get()] =
        parameter(arg.get(), arg->type.mode == BufMode::tape ? Role::tape : Role::primal, type, arg->name);
  }
  for (const auto& arg : source_->body.args) {
    auto in = [&](const std::vector<const Value*>& list) { return contains(list, arg.get()); };
    BufMode mode = arg->type.mode;
    bool asked = in(wrt_) || in(of_), scratch = mode == BufMode::inout || mode == BufMode::tape;
    if (!asked && !(scratch && activity.active(arg.get()))) continue;
    Role role = scratch ? Role::adjoint : mode == BufMode::in ? Role::gradient : Role::cotangent;
    BufMode own = scratch ? BufMode::inout : mode == BufMode::in ? BufMode::accum : BufMode::in;
    adjoint_[arg.get()] =
        parameter(arg.get(), role, AdjointMemory::adjointType(arg->type, own), "d_" + arg->name);
  }
  Replay replay(facts, *builder_, primal_, sharedBytesLeft(facts, activity));
  AdjointMemory memory(facts, activity, replay, *builder_, adjoint_);
  replay.sweep();
  memory.prepare();
  AdjointSweep(module_, facts, activity, replay, *builder_, memory).run();
  if (replay.rankExceeded()) return refusal(*source_, Refusal::rank);
  mapGrid();
  dropDead(*made_);
  TG_CHECK(checkRepeatable(*made_));
  TG_TRY(KernelVjp vjp, finish(replay));
  vjp.remarks = findCuts(*source_, activity, wrt_, of_);
  return vjp;
}

static void remap(Operand& operand, const std::unordered_map<const Value*, Value*>& map) {
  if (operand.value) operand.value = map.at(operand.value);
  for (Operand& item : operand.items) remap(item, map);
}

void VjpMaker::mapGrid() {
  made_->grid = source_->grid;
  for (Operand& extent : made_->grid) remap(extent, primal_);
}

/// Whether an operand is, or holds, an element of the buffer.
static bool reads(const Operand& operand, const Value* buffer) {
  if (operand.kind == Operand::Kind::element && operand.value == buffer) return true;
  return std::ranges::any_of(operand.items, [&](const Operand& item) { return reads(item, buffer); });
}

static void replace(Operand& operand, const Value* from, Value* to) {
  if (operand.value == from) operand.value = to;
  for (Operand& item : operand.items) replace(item, from, to);
}

/// If only the extents of a buffer are read, reads them from its adjoint if that has the same, so that it can be dropped.
void VjpMaker::readExtentsElsewhere() {
  for (const auto& arg : source_->body.args) {
    Value* primal = primal_.at(arg.get());
    auto it = adjoint_.find(arg.get());
    if (it == adjoint_.end() || it->second->type.lanes != arg->type.lanes) continue;
    const bool read = std::ranges::any_of(primal->uses, [&](const Use& use) {
      const OperandList& operands = use.user()->operands;
      return std::ranges::any_of(operands, [&](const Operand& operand) { return reads(operand, primal); });
    });
    if (read) continue;
    primal->uses.replaceAll(it->second);
    for (Operand& extent : made_->grid) replace(extent, primal, it->second);
  }
}

/// Restores the modes of buffers that were made tapes so that dead stores to them could be removed.
void VjpMaker::settleModes() {
  auto isWritten = [](const Value& buffer) {
    return std::ranges::any_of(buffer.uses, [&](const Use& use) {
      return writesElement(*use.user()) && elementOf(*use.user())->value == &buffer;
    });
  };
  for (const auto& arg : source_->body.args) {
    Value* primal = primal_.at(arg.get());
    if (arg->type.mode == BufMode::inout)
      primal->type.mode = isWritten(*primal) ? BufMode::inout : BufMode::in;
    else if (arg->type.mode == BufMode::accum)  // the forward sweep counts again, from zero
      primal->type.mode = isWritten(*primal) ? BufMode::accum : BufMode::in;
  }
}

/// Simplifies the VJP, checks its memory, drops unused parameters, and describes the others.
Result<KernelVjp> VjpMaker::finish(const Replay& replay) {
  settleModes();
  simplifyKernel(*made_);
  // Lowering overlaps shared buffers where it can. Doing it here would make the next derivative more expensive.
  if (sharedBytes(*made_) > kMaxSharedBytes) overlapSharedBuffers(*made_);
  if (sharedBytes(*made_) > kMaxSharedBytes) return refusal(*source_, Refusal::shared);
  if (localBytes(*made_) > kMaxLocalBytes) return refusal(*source_, Refusal::local);
  readExtentsElsewhere();
  KernelVjp out;
  out.source = source_;
  std::vector<bool> keep;
  for (const auto& arg : made_->body.args) {
    auto role = roles_.find(arg.get());
    keep.push_back(role != roles_.end() &&
                   (role->second.role == Role::gradient || role->second.role == Role::adjoint));
  }
  std::vector<const Value*> before;
  for (const auto& arg : made_->body.args) before.push_back(arg.get());
  std::vector<bool> there = dropUnusedParams(*made_, keep);
  for (size_t i = 0; i < before.size(); ++i) {
    if (!there[i]) continue;
    auto role = roles_.find(before[i]);
    out.params.push_back(role == roles_.end() ? KernelVjpParam{Role::tape, ""} : role->second);
    KernelVjp::TapeAxes axes;
    if (auto tape = replay.tapes().find(before[i]); tape != replay.tapes().end())
      axes = {tape->second.loops, tape->second.launch, tape->second.ofGroups};
    out.axes.push_back(std::move(axes));
  }
  out.kernel = std::move(made_);
  return out;
}

}  // namespace

Result<KernelVjp> differentiateKernel(const Module& module, const Item& kernel,
                                      const KernelVjpRequest& request) {
  std::shared_ptr<Item> source = cloneItem(kernel);
  inlineCalls(module, *source, true);
  // A short kernel has a better gradient: a tree in shared memory becomes a reduction, whose adjoint is one too, and a load
  // that leaves a loop needs one addition.
  simplifyKernel(*source);
  liftUniformLoads(*source);
  return VjpMaker(module, source, request).run();
}

Result<Shape> tapeShape(const KernelVjp& vjp, int param, const Item& primal,
                        const std::vector<Shape>& shapes) {
  auto at = static_cast<size_t>(param);
  const KernelVjpParam& role = vjp.params[at];
  for (size_t i = 0; i < primal.body.args.size(); ++i)
    if (!role.of.empty() && primal.body.args[i]->name == role.of) return shapes[i];
  TG_TRY(auto grid, evaluateGrid(primal, shapes));
  IndexAnalysis analysis(*vjp.source, &shapes);
  Shape shape = vjp.kernel->body.args[at]->type.shape;
  int axis = 0;
  for (const Op* loop : vjp.axes[at].loops) {
    std::optional<int64_t> trips = analysis.tripCount(*loop);
    if (!trips && shape[axis] == Shape::kDynamic) return refusal(*loop, Refusal::trips);
    if (shape[axis] == Shape::kDynamic) shape[axis] = std::max<int64_t>(1, *trips);
    ++axis;
  }
  for (int each : vjp.axes[at].launch) {
    auto launch = static_cast<size_t>(each);
    shape[axis++] = grid[launch] * (vjp.axes[at].ofGroups ? 1 : primal.workgroup[launch]);
  }
  if (!hasValidExtents(shape))
    return failAt(primal.loc,
                  "kernel @{}: its gradient would keep a tape of {} elements, more than the {} that a tensor "
                  "may have; bound the limits of its loops: `%n = tgk.min %limit, 64`",
                  primal.name, shape.str(), kMaxElements);
  return shape;
}

}  // namespace tg
