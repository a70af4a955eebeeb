// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/inline_ops.h"

#include <algorithm>
#include <utility>

#include "codegen/schedule.h"
#include "ir/access.h"
#include "ir/attention_parts.h"
#include "ir/infer.h"
#include "ir/op_view.h"
#include "ir/rows.h"
#include "ir/window.h"
#include "passes/fuse/bindings.h"
#include "passes/fuse/cost.h"

namespace tg::fuse {

/// Whether an op's result depends on indices alone and is computed faster than it would be loaded: a mask, a constant.
static bool isOfPlaces(const Op& op) {
  if (op.info().has(table::leaf)) return op.info().mayStand(table::inRegion);
  if (op.results.size() != 1 || op.code == Opcode::dropout) return false;
  const DType type = op.result()->type.dtype;
  if (!op.info().has(table::view) && (!keepsElements(op) || (type != DType::i1 && type != DType::i32)))
    return false;
  return everyUse(op, [](const Value* value) { return value->def && isOfPlaces(*value->def); });
}

bool draws(const Op& op) {
  return op.code == Opcode::random_uniform || op.code == Opcode::random_normal || op.code == Opcode::dropout;
}

bool isCheapMap(const Op& op) {
  switch (op.code) {
  case Opcode::add:
  case Opcode::sub:
  case Opcode::mul:
  case Opcode::neg:
  case Opcode::square:
  case Opcode::select: return true;
  default: return false;
  }
}

void boundViews(const Item& func, std::unordered_map<const Op*, const Op*>& forced) {
  std::unordered_map<const Op*, int> views;  // length of the chain of views that ends at an op
  for (Op* op : func.body.ops) {
    if (!isInline(*op) || forced.contains(op)) continue;
    int before = 0;
    forEachUse(std::as_const(*op), [&](const Value* value) {
      if (auto at = value->def ? views.find(value->def) : views.end(); at != views.end())
        before = std::max(before, at->second);
    });
    if (before < kMostViews)
      views[op] = before + 1;
    else
      forced.emplace(op, op);
  }
}

void storeTurned(const Item& func, const Target& target, std::unordered_map<const Op*, const Op*>& forced) {
  if (target.reduce != "workgroup") return;
  for (const Op* op : func.body.ops) {
    if (op->code != Opcode::unfold || as::unfold(*op).size() <= as::unfold(*op).step()) continue;
    auto isView = [](const Op* def) { return def && (def->info().has(table::view) || isWidening(*def)); };
    for (const Op* view = op->in(0)->def; isView(view); view = view->in(0)->def) {
      if (view->code == Opcode::unfold) break;  // of the same windows
      if (view->code != Opcode::transpose) continue;
      const int64_t last = as::transpose(*view).perm().back();
      if (last + 1 != view->result()->type.rank()) forced.emplace(view, op);
    }
  }
}

/// Whether only products in f32x3, which split f32 into halves, read a value, maybe through views.
static bool readBySplits(const Value& value) {
  return !value.uses.empty() && std::ranges::all_of(value.uses, [](const Use& use) {
    const Op& user = *use.user();
    if (user.code == Opcode::matmul) return isSplit(user);
    return user.info().has(table::view) && readBySplits(*user.result());
  });
}

/// Whether an op multiplies a factor of such products by a number: they do that as they read the factor.
static bool isScaledFactor(const Op& op) {
  return op.code == Opcode::mul && op.result()->type.dtype == DType::f32 &&
         as::mul(op).rhs()->type.rank() == 0 && readBySplits(*op.result());
}

bool isAddition(const Op& op) {
  return op.code == Opcode::add && op.result()->type.dtype == DType::f32 &&
         as::add(op).lhs()->type == as::add(op).rhs()->type;
}

std::vector<Value*> termsOf(std::vector<Value*> sums) {
  std::vector<Value*> terms;
  while (!sums.empty()) {
    Value* value = sums.back();
    sums.pop_back();
    const Op* def = value->def;
    if (def && isAddition(*def) && value->uses.hasOne())
      sums.insert(sums.end(), {as::add(*def).rhs(), as::add(*def).lhs()});
    else
      terms.push_back(value);
  }
  return terms;
}

std::optional<PadPlace> padPlace(const Op& op) {
  if (op.code != Opcode::pad) return {};
  const as::pad pad(op);
  const std::vector<int64_t> low = pad.low(), high = pad.high(), interior = pad.interior();
  if (pad.value() != 0 || std::ranges::any_of(interior, [](int64_t n) { return n != 0; })) return {};
  std::optional<PadPlace> place;
  for (size_t axis = 0; axis < low.size(); ++axis) {
    if (low[axis] == 0 && high[axis] == 0) continue;
    if (place || low[axis] < 0 || high[axis] < 0) return {};
    place = {static_cast<int>(axis), low[axis]};
  }
  return place;
}

bool isInline(const Op& op) {
  return isScaledFactor(op) || op.info().has(table::view) || op.code == Opcode::stop_gradient ||
         isOfPlaces(op) || isWidening(op);
}

bool isInlineBelowReshapes(Value& value) {
  const Value* base = throughReshapes(&value);
  return base->def && isInline(*base->def);
}

std::unordered_map<const Op*, const Op*> maximaOf(const Item& func) {
  std::unordered_map<const Op*, const Op*> maxima;
  for (const Op* op = func.body.ops.back(); op; op = op->previous()) {
    if (!keepsElements(*op) && !op->info().has(table::view)) continue;
    const Op* all = nullptr;
    bool alone = true;
    for (const Use& use : op->result()->uses) {
      const Op* own = use.user();
      if (own->code != Opcode::max_reduce) {
        const Op* const* later = valueIn(maxima, own);
        own = later ? *later : nullptr;
      }
      alone = alone && own && (!all || own == all);
      if (!alone) break;
      all = own;
    }
    if (alone && all) maxima.emplace(op, all);
  }
  return maxima;
}

bool isWidening(const Op& op) {
  if (op.code != Opcode::cast || !op.in(0)->type.isTensor()) return false;
  const DType from = op.in(0)->type.dtype;
  return isNarrow(from) && op.result()->type.dtype == computeType(from);
}

bool isBoundary(const Op& op) {
  switch (op.code) {
  case Opcode::param:
  case Opcode::state:
  case Opcode::update:
  case Opcode::adjoin:
  case Opcode::disjoin:
  case Opcode::param_grad:
  case Opcode::capture:
  case Opcode::return_: return true;
  default: return false;
  }
}

Value* throughReshapes(Value* value) {
  while (value->def && (value->def->code == Opcode::reshape || value->def->code == Opcode::stop_gradient))
    value = value->def->in(0);
  return value;
}

bool movesElements(const Op& op) {
  return op.info().fusion == table::Fusion::view && op.numOperands() == 1 &&
         (op.code != Opcode::pad || as::pad(op).value() == 0);
}

DType factorOf(const Value& value) {
  const Value* from = &value;
  while (from->def && movesElements(*from->def)) from = from->def->in(0);
  return from->def && isWidening(*from->def) ? from->def->in(0)->type.dtype : from->type.dtype;
}

void useUnits(Op& op, const Target& target) {
  if (op.code != Opcode::matmul || as::matmul(op).precision() != "f32" || isNarrow(op.result()->type.dtype))
    return;
  const DType dtype = factorOf(*as::matmul(op).lhs());
  if (isNarrow(dtype) && factorOf(*as::matmul(op).rhs()) == dtype && target.multiplies(dtype))
    set(op.attrs, "precision", Attr::word(std::string(name(dtype))));
}

/// Whether one kernel would search windows many times: the gradient of a max pool reads, for each element of x, every window
/// that holds it. In two kernels each window is searched once. Likewise a max pool of separated windows: one kernel
/// would find the maximum of a row again for each window with that row.
static bool searchesAgain(const Op& op, const Target& target) {
  if (op.code == Opcode::max_pool2d) return areSeparated(windowOf(op));
  if (op.code != Opcode::max_pool2d_grad) return false;
  const auto [rows, columns] = windowOf(op);
  const double size = static_cast<double>(rows.size) * static_cast<double>(columns.size);
  return size * size / (static_cast<double>(rows.step) * static_cast<double>(columns.step)) >
         (target.reduce == "workgroup" ? kMostSearchedByGroups : kMostSearched);
}

/// Whether a kernel over rows leaves most of the device idle: few rows, each too long for one workgroup. False where each
/// lane takes a row: on lavapipe several kernels are slower from 4 rows on.
static bool hasFewLongRows(const Op& op, const Target& target) {
  if (op.info().fusion != table::Fusion::row || target.reduce != "workgroup") return false;
  const auto space = rowSpaceOf(op);
  if (!space && !op.info().attr("axis")) return false;
  const Shape& shape = op.in(0)->type.shape;
  const int64_t length = space ? space->length : shape[normalAxis(as::softmax(op).axis(), shape.rank())];
  const int64_t rows = shape.elements() / length;
  return length > kLongestRow && rows <= kFewRows && rows * target.workgroup < target.parallel;
}

/// Whether a kernel has few results and computes each of many elements by one invocation: a pool over large windows, or a
/// logsumexp along another axis than the last.
static bool sumsAlone(const Op& op, const Target& target) {
  const bool pools = op.code == Opcode::max_pool2d || op.code == Opcode::avg_pool2d;
  if (!pools && (op.code != Opcode::logsumexp || rowSpaceOf(op))) return false;
  const int64_t results = op.result()->type.elements();
  int64_t terms = op.in(0)->type.elements() / results;
  if (pools) {
    const auto [rows, columns] = windowOf(op);
    terms = rows.size * columns.size;
  }
  return results < target.parallel && terms > kMostAlone;
}

bool isOneKernel(const Op& op, const Target& target) {
  if (!op.info().has(table::composite)) return true;
  if (searchesAgain(op, target) || sumsAlone(op, target) || hasFewLongRows(op, target)) return false;
  if (op.info().fusion == table::Fusion::contraction || op.code == Opcode::categorical) return false;
  if (op.code == Opcode::attention_grad) return false;
  if (op.info().fusion == table::Fusion::attention && !streamsScores(op, target)) return false;
  Bindings bound(target);
  forEachUse(op, [&](const Value* value) { bound.read(*value); });
  bound.write(op.results.size());
  return bound.fitOnce();
}

}  // namespace tg::fuse
