// SPDX-License-Identifier: Apache-2.0
// fuse: one kernel per region.
//   before:  %z = tg.matmul %x, %w   %a = tg.add %z, %b   %h = tg.relu %a
//   after:   %h = tg.fused (%x = %x, %w = %w, %b = %b) {schedule = matmul{tile = [8, 8]}} { matmul; add;
//   relu; yield }
// Requires stage(tensor) without tg.grad. Ensures stage(fused): every op sits in a region that one
// kernel computes; views, constants and iota are copied into their readers; the module carries its
// target; captures and gradients that are not kept are gone; the sums of custom kernels are exact, unless
// deterministic is off (passes/fuse/exact_sums.h).
// After append-grad and append-adam, so that backward and update chains fuse too; before plan, which
// needs final lifetimes.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "ir/target.h"
#include "passes/fuse/exact_sums.h"
#include "passes/fuse/fuse.h"
#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/tuning.h"

namespace tg {

/// A shipped name, a JSON file, or JSON text.
static Result<Target> resolveTarget(const std::string& option) {
  if (option.starts_with("{")) return targetFromJson(option, "target");
  bool file = option.find('/') != std::string::npos || option.ends_with(".json");
  if (!file) return targetByName(option);
  std::ifstream in(option);
  if (!in) return fail(fmt::format("target file {} cannot be opened", option));
  std::string text(std::istreambuf_iterator<char>(in), {});
  return targetFromJson(text, option);
}

static void dropUnkept(Item& func, const FuseOptions& options) {
  func.body.ops.eraseIf([&](const Op* op) {
    if (op->code == Opcode::param_grad) return !options.keepGrads;
    return op->code == Opcode::capture && !globMatch(options.keepCaptures, op->word("name"));
  });
}

Result<void> run_fuse(Module& module, const FuseOptions& options, const PassContext& context) {
  TG_TRY(AttrList tuning, readTuning(options.tuning));
  std::unordered_set<std::string> tuned;
  TG_TRY(Target target, resolveTarget(options.target));
  for (Item* func : module.all(ItemKind::func)) {
    for (Op* op : func->body.ops)
      if (op->code == Opcode::grad) return failAt(op->loc, "tg.grad is left; run append-grad first");
    dropUnkept(*func, options);
    // Composites that are nothing but views and joins of them live inside regions, as index arithmetic.
    expandOps(module, *func, [](const Op& op) { return op.info().fusion == table::Fusion::view; });
    fuse::computeInF32(module, *func);
  }
  if (options.deterministic) fuse::makeSumsExact(module, target, context);
  TG_CHECK(run_canonicalize(module, {}, context));
  TG_CHECK(run_cse(module, {}, context));
  TG_CHECK(run_dce(module, {}, context));
  // A function that runs every n-th step orders the sums that the others add to.
  for (bool repeated : {true, false})
    for (Item* func : module.all(ItemKind::func))
      if ((find(func->attrs, "every") != nullptr) == repeated) fuse::flattenOptimizer(module, *func, target);
  for (Item* func : module.all(ItemKind::func)) {
    fuse::prepare(module, *func, target);
  }
  // What prepare took apart may compute a thing twice, as the gradient of a short attention does its scores,
  // or compute what nobody reads.
  TG_CHECK(run_cse(module, {}, context));
  TG_CHECK(run_dce(module, {}, context));
  for (Item* func : module.all(ItemKind::func)) {
    fuse::KernelNotes notes;
    fuse::KernelNotes* wanted = options.report ? &notes : nullptr;
    fuse::formRegions(*func, target, wanted);
    fuse::sinkMaps(*func, target);
    std::vector<fuse::Report> again;
    if (options.recompute > 0) again = fuse::recompute(module, *func, target, options.recompute);
    fuse::mergeKernels(*func, target, wanted);
    fuse::applyTuning(*func, tuning, tuned);
    fuse::settleSchedules(*func, target, context);
    if (!options.report) continue;
    for (const std::vector<fuse::Report>& reports : {fuse::reportKernels(*func, notes), again})
      for (const fuse::Report& report : reports) context.remark(report.loc, report.text);
  }
  for (const NamedAttr& entry : tuning)
    if (!tuned.contains(entry.name))
      context.remark(module.loc,
                     fmt::format("tuning file {}: no region has the key {}", options.tuning, entry.name));
  set(module.attrs, "target", targetToAttr(target));
  module.stage = Stage::fused;
  return {};
}

}  // namespace tg
