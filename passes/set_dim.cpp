// SPDX-License-Identifier: Apache-2.0
// set-dim: gives every axis of a name another extent; set-batch: the same for the name batch.
//
//   param @table : tensor<256x8xf32> {dims = [vocab, _]}     →      param @table : tensor<32x8xf32> {…}
//   func @train(%x: tensor<256x1xf32> {batch = 0})           →      func @train(%x: tensor<32x1xf32> {batch = 0})
//     %h = tg.matmul %x, %w : tensor<256x64xf32>             →      %h = tg.matmul %x, %w : tensor<32x64xf32>
//     %r = tg.reshape %h {shape = [256, 8, 8]}               →      shape = [32, 8, 8]; a -1 stays
//     %s = tg.slice %h {…, limits = [256, 8]}                →      limits = [32, 8], as it takes the whole axis
//
// Extents without an attribute follow from the operands. An extent that an attribute or a leaf op spells out may be that of
// the axis, or a number that happens to equal it; if the result depends on which, that is an error.
// Random numbers, constants of one value, an iota along another axis and what broadcast_to repeats get the new extent if
// they meet a value with the axis, element by element or side by side in a concat: each row of the batch draws its own
// numbers or has the same as the others.
// A reshape keeps the order of elements, so the axis of its result that holds the named one is the one with as many
// elements behind it as before. A value may have the axis twice, as the scores of attention do.
// Requires: stage tensor.
//   c1: n is 1 or more; c2: some axis has the name; c4: no gradient is appended yet (a mean's holds 1/N);
//   c5: no extent that an attribute or a leaf spells out is ambiguous; c6: the ops are valid for the new extents.
// Ensures: every axis of the name has extent n; other arguments, parameters and states keep their types. Functions
//   without such an axis do not change. On an error nothing changes. Random numbers that have the old extent and meet no
//   value with the axis keep it, and a remark names them.
// Where: before append-grad.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "ir/dims.h"
#include "ir/kernel/custom.h"
#include "ir/text.h"
#include "passes/resize_functions.h"

namespace tg {
namespace {

/// The names of axes in the module, for messages.
std::string knownDims(const Module& module) {
  std::set<std::string> names;
  auto add = [&](const AttrList& attrs, const Type& type) {
    for (const std::string& name : dimsOf(attrs, type.rank()))
      if (!name.empty()) names.insert(name);
  };
  for (const auto& item : module.items) {
    add(item->attrs, item->type);
    for (const auto& arg : item->body.args) add(arg->attrs, arg->type);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Error noSuchDim(const Module& module, const NewDim& dim) {
  if (dim.pass == "set-batch")
    return dim.error(module.loc, 2,
                     "no argument says which axis is its batch; write %x: tensor<…> {{batch = 0}}");
  if (dim.name.empty() || dim.name == "_")
    return dim.error(module.loc, 2, "it needs the name of an axis: set-dim{{name=time n=256}}");
  const std::string known = knownDims(module);
  return dim.error(module.loc, 2, "no axis is called '{}'; {}", dim.name,
                   known.empty() ? "name axes by %x: tensor<…> {dims = [batch, time]}"
                                 : "the names are " + known);
}

/// Resizes a copy of the module, which replaces it if nothing fails.
Result<void> resize(Module& module, const NewDim& dim, const std::string& funcs, const PassContext& context) {
  if (dim.n < 1) return dim.error(module.loc, 1, "n={} is not 1 or more", dim.n);
  std::unique_ptr<Module> work = clone(module);
  std::unordered_map<std::string, Type> before;
  for (const auto& item : work->items) {
    if (!isStorage(item->kind)) continue;
    const Type type = item->type;
    TG_TRY(const std::vector<int> axes,
           resizeDeclared(dim, "@" + item->name, item->loc, item->attrs, item->type));
    if (axes.empty()) continue;
    if (const Attr* init = find(item->attrs, "init"); init && init->text == "dense" && item->type != type)
      return dim.error(item->loc, 5, "the init of @{} writes each value of {}", item->name, type.str());
    before.emplace(item->name, type);
  }
  bool any = !before.empty();
  std::vector<Item*> functions;
  for (Item* func : work->all(ItemKind::func)) {
    if (isKernelFunc(*func) || !globMatch(funcs, func->name)) continue;
    for (const auto& arg : func->body.args)
      any = any || !axesNamed(arg->attrs, arg->type.rank(), dim.name).empty();
    functions.push_back(func);
  }
  if (functions.empty() && funcs != "*")
    return dim.error(module.loc, 2, "func={} names no function; there are {}", funcs,
                     namesOf(module.all(ItemKind::func)));
  if (!any || dim.name.empty() || dim.name == "_") return noSuchDim(module, dim);
  TG_CHECK(resizeFunctions(*work, functions, dim, before, context));
  module.items = std::move(work->items);
  return {};
}

}  // namespace

Result<void> run_set_batch(Module& module, const SetBatchOptions& options, const PassContext& context) {
  return resize(module, {"set-batch", std::string(kBatchDim), options.n}, options.func, context);
}

Result<void> run_set_dim(Module& module, const SetDimOptions& options, const PassContext& context) {
  return resize(module, {"set-dim", options.name, options.n}, "*", context);
}

}  // namespace tg
