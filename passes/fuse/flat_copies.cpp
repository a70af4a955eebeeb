// SPDX-License-Identifier: Apache-2.0
// One region casts a whole run of parameters, laid out as a group (see flat_copies.h):
//
//   %w_bf16 = tg.cast %w,  …  %b_bf16 = tg.cast %b
//   →  [%w_bf16, %b_bf16] = tg.fused (%p = [%w, %b]) { %copy = tg.cast %p : tensor<Nxbf16>  tg.yield %copy }
#include "passes/fuse/flat_copies.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/access.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/flat_norm.h"
#include "passes/fuse/region_writer.h"

namespace tg::fuse {
namespace {

/// The read of a parameter that an op casts to 16 bits and whose copy can lie in a group; otherwise null.
const Op* copiedBy(const Op& op, const Target& target) {
  if (op.code != Opcode::cast || !isNarrow(op.result()->type.dtype)) return nullptr;
  const Op* def = op.in(0)->def;
  const bool whole = def && def->code == Opcode::param && !namesRows(*def);
  const Type& copy = op.result()->type;
  return whole && op.in(0)->type.dtype == DType::f32 && copy.bytes() % target.alignment == 0 &&
                 copy.elements() < kLargeCopy
             ? def
             : nullptr;
}

/// The parameters of a tg.reduce_scatter, those with 16-bit copies first. Empty if some already have a place in memory.
std::vector<std::string> runOfParts(const Module& module, const Op& scatter, const Target& target) {
  std::vector<std::string> run;
  for (const Operand& operand : scatter.operands)
    if (const Op* def = operand.value->def; def && def->code == Opcode::param && !namesRows(*def))
      run.push_back(def->operands[0].text);
  const bool placed = std::ranges::any_of(
      run, [&](const std::string& name) { return module.storage(name)->place.has_value(); });
  const std::unordered_set<std::string> copied = copiedParameters(module, target);
  std::stable_partition(run.begin(), run.end(),
                        [&](const std::string& name) { return copied.contains(name); });
  return placed ? std::vector<std::string>() : run;
}

/// Lists of parameters that lie one behind the other in memory: members of a group that a region reads. Parameters of a
/// sharded optimizer are in no group, so their order may be chosen here.
std::vector<std::vector<std::string>> runsOf(const Module& module, const Target& target) {
  std::vector<std::vector<std::string>> runs;
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops) {
      if (op->code == Opcode::reduce_scatter && as::reduce_scatter(*op).reduction() == "same")
        runs.push_back(runOfParts(module, *op, target));
      if (op->code != Opcode::fused) continue;
      for (int binding = 0; binding < op->numOperands(); ++binding) {
        if (!op->operands[static_cast<size_t>(binding)].bindsGroup()) continue;
        std::vector<std::string> run;
        for (const Value* source : bindingSources(*op, binding))
          if (source->def && source->def->code == Opcode::param) run.push_back(source->def->operands[0].text);
        if (run.size() > 1) runs.push_back(std::move(run));
      }
    }
  return runs;
}

/// Builds one region in place of these casts, before the first of them.
void build(Item& func, const std::vector<Op*>& casts, const Target& target) {
  const std::unordered_set<const Op*> ours(casts.begin(), casts.end());
  Op* first = nullptr;
  std::unordered_set<const Op*> late;  // reads of parameters behind the first cast, which may stand anywhere
  for (Op* op : func.body.ops) {
    if (!first && ours.contains(op)) first = op;
    if (first && op->code == Opcode::param) late.insert(op);
  }
  RegionWriter region(first->loc);
  std::vector<Value*> parameters;
  for (const Op* cast : casts) {
    parameters.push_back(cast->in(0));
    region.op().addResult(cast->result()->type, cast->result()->name)->loc = cast->result()->loc;
    if (Op* read = cast->in(0)->def; late.contains(read))
      func.body.ops.insert(first, func.body.ops.take(read));
  }
  region.op().groups.push_back(static_cast<int>(casts.size()));
  Value* flat = bindGroup(region, "p", parameters);
  region.builder().setHint("copy");
  region.yield({region.builder().cast(flat, casts[0]->result()->type.dtype)});
  const Op& made = region.op();
  func.body.ops.insert(first, region.finish(target));
  for (size_t i = 0; i < casts.size(); ++i)
    casts[i]->result()->uses.replaceAll(made.result(static_cast<int>(i)));
  func.body.ops.eraseIf([&](const Op* op) { return ours.contains(op); });
}

}  // namespace

std::unordered_set<std::string> copiedParameters(const Module& module, const Target& target) {
  std::unordered_set<std::string> names;
  for (const Item* func : module.all(ItemKind::func))
    for (const Op* op : func->body.ops)
      if (const Op* param = copiedBy(*op, target)) names.insert(param->operands[0].text);
  return names;
}

void flattenCopies(const Module& module, Item& func, const Target& target) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::map<std::string, Op*> casts;
    for (Op* op : func.body.ops)
      if (const Op* param = copiedBy(*op, target); param && op->result()->type.dtype == dtype)
        casts.emplace(param->operands[0].text, op);
    if (casts.size() < 2) continue;
    for (const std::vector<std::string>& run : runsOf(module, target)) {
      std::vector<Op*> adjoining;
      int64_t bytes = 0;
      auto end = [&] {
        if (adjoining.size() > 1) build(func, adjoining, target);
        adjoining.clear();
        bytes = 0;
      };
      for (const std::string& name : run) {
        auto cast = casts.find(name);
        if (cast == casts.end()) {
          end();
          continue;
        }
        const int64_t own = groupBytes({cast->second->in(0)->type});
        if (bytes + own > mostBytes(target)) end();
        bytes += own;
        adjoining.push_back(cast->second);
        casts.erase(cast);
      }
      end();
    }
  }
}

}  // namespace tg::fuse
