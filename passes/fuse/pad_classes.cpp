// SPDX-License-Identifier: Apache-2.0
// pad-classes: pads the classes of a cross entropy in 16 bits, so that each row of its logits begins at a multiple of
// 16 bytes. Products on matrix units load and store rows by 16 bytes; with a vocabulary of 50 257 they went by 2.
//
//   before:  %y = tg.matmul %x, %w : tensor<8192x50257xf32>          %l = tg.cross_entropy %y, %t
//            %d = tg.cross_entropy_grad %y, %t, %s                   %dx = tg.matmul %d, %w {transpose_b = true}
//            %dw = tg.matmul %x, %d {transpose_a = true}
//   after:   %p = tg.pad %w {high = [0, 7]} : tensor<768x50264xf32>  %y0 = tg.matmul %x, %p : tensor<8192x50264xf32>
//            %y = %y0 + (0 for a class, -3.4e38 for padding)         %l = tg.cross_entropy %y, %t
//            %d = tg.cross_entropy_grad %y, %t, %s                   %dx = tg.matmul %d, %p {transpose_b = true}
//            %dw = tg.slice(tg.matmul %x, %d {transpose_a = true})
//
// The lowest number is a logit whose probability is 0, so no other class's loss or gradient changes, and the gradient of the
// padding is 0. Targets behind the classes stay behind them. Casts between f32 and 16 bits, the bias, and reshapes are
// padded likewise; all other readers read a slice.
//
// Requires: stage(tensor), with a target, in f32 but for casts (compute-in-f32).
// Ensures: the values that stay are equal to the last bit. Nothing changes without matrix units, with smoothed labels, with a
//   multiple of 8 classes, or if an ignored target lies behind the classes.
// Where: in front of split-rows, which cuts what is large now.
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/cross_entropy.h"
#include "ir/op_view.h"
#include "ir/unread.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/pieces.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {
namespace {

/// Padded rows have a multiple of `kRow` elements, since products take 32 or 64 terms at a time; a multiple of `kWhole` of
/// 16 bits is whole 16 bytes.
constexpr int64_t kRow = 64, kWhole = 8;

/// A value with more columns. `filled`: the additional ones hold the lowest number; otherwise 0.
struct Padded {
  Value* value = nullptr;
  bool filled = false;
};

class ClassPadder {
 public:
  ClassPadder(Item& func, const Target& target) : builder_(func.body), ops_(func.body.ops), target_(target) {}
  void run();

 private:
  bool starts(const Op& op) const;
  void pad(Op& product);
  void visit(Op& op);
  void cutOff(const Op& op, Value* longer);
  bool multiply(Op& op);
  void sum(Op& op, const Padded& padded);
  Value* wide(Value* value, int axis, double fill);
  Value* outside(Value* targets);
  Value* narrow(const Value& value);
  void set(const Op& op, Value* value, bool filled);

  Builder builder_;
  OpList& ops_;
  const Target& target_;
  // Of the product whose classes are being padded:
  int64_t count_ = 0;
  double lowest_ = 0;  ///< the lowest number of the factors' type
  std::unordered_map<const Value*, Padded> padded_;
  std::unordered_map<const Value*, Value*> slices_;
};

/// By how many elements rows that do not end at a multiple of 16 bytes become longer.
int64_t padding(int64_t count) { return count % kWhole == 0 ? 0 : (kRow - count % kRow) % kRow; }

/// Whether an op keeps the last axis and computes each element of its result from those of that column.
bool keepsColumns(const Op& op) {
  auto columns = [](const Value& value) { return value.type.rank() > 0 ? value.type.shape.back() : 1; };
  switch (op.code) {
  case Opcode::cast: return isFloat(op.result()->type.dtype);
  case Opcode::reshape: return columns(*op.in(0)) == columns(*op.result());
  case Opcode::add: return columns(*as::add(op).lhs()) == columns(*as::add(op).rhs());
  default: return false;
  }
}

/// Whether the classes of a cross entropy, or of its gradient, can be padded.
bool canPad(const Op& op) {
  const std::optional<int64_t> ignored = ignoredTarget(op);
  return as::cross_entropy(op).label_smoothing() == 0 && (!ignored || *ignored < op.in(0)->type.shape.back());
}

/// The gradient of a cross entropy whose logits follow from this value, if it can be padded.
const Op* gradientOf(const Value& logits) {
  for (const Use& use : logits.uses) {
    const Op& reader = *use.user();
    if (reader.code == Opcode::cross_entropy_grad && reader.in(0) == &logits)
      return canPad(reader) ? &reader : nullptr;
    if (!keepsColumns(reader)) continue;
    if (const Op* found = gradientOf(*reader.result())) return found;
  }
  return nullptr;
}

/// Whether an op computes the logits of a cross entropy on matrix units, with rows that are no multiple of 16 bytes.
bool ClassPadder::starts(const Op& op) const {
  if (op.code != Opcode::matmul || padding(op.result()->type.shape.back()) == 0) return false;
  const std::optional<DType> factor = dtypeNamed(as::matmul(op).precision());
  return factor && isNarrow(*factor) && target_.multiplies(*factor) &&
         op.result()->type.shape.back() >= kManyClasses && gradientOf(*op.result());
}

/// A value with more rows or columns. Casts are built again behind the pad, so that what is stored is padded.
Value* ClassPadder::wide(Value* value, int axis, double fill) {
  if (value->def && value->def->code == Opcode::cast)
    return builder_.cast(wide(value->def->in(0), axis, fill), value->type.dtype);
  return filled(builder_, value, axis, padding(value->type.shape[axis]), fill);
}

/// Targets, of which those behind the classes lie behind the padding, too.
Value* ClassPadder::outside(Value* targets) {
  auto number = [&](int64_t value) { return builder_.constant(static_cast<double>(value), targets->type); };
  Value* behind = builder_.binary(Opcode::greater_equal, targets, number(count_));
  return builder_.op(Opcode::select, {behind, number(count_ + padding(count_)), targets});
}

/// A padded value without its padding.
Value* ClassPadder::narrow(const Value& value) {
  Value*& slice = slices_[&value];
  if (slice) return slice;
  Value* padded = padded_.at(&value).value;
  const Shape& shape = value.type.shape;
  builder_.setHint(value.name);
  slice = builder_.slice(padded, std::vector<int64_t>(static_cast<size_t>(shape.rank())),
                         {shape.begin(), shape.end()});
  builder_.setHint("");
  return slice;
}

void ClassPadder::set(const Op& op, Value* value, bool filled) {
  std::swap(value->name, op.result()->name);
  padded_[op.result()] = {value, filled};
}

/// Replaces the result of an op by the beginning of each row of a longer one.
void ClassPadder::cutOff(const Op& op, Value* longer) {
  padded_[op.result()] = {longer, false};
  Value* slice = narrow(*op.result());
  std::swap(slice->name, op.result()->name);
  op.result()->uses.replaceAll(slice);
}

/// A product with a padded factor. Along k it takes all of both factors, where the padding is 0; its own columns are cut
/// off behind it, so that it stores whole rows. False if it takes a factor without its padding.
bool ClassPadder::multiply(Op& op) {
  const as::matmul product(op);
  for (int which = 0; which < 2; ++which) {
    auto at = padded_.find(op.in(which));
    Value* other = op.in(1 - which);
    if (at == padded_.end() || at->second.filled || padded_.contains(other)) continue;
    const bool alongK = which == 0 ? !product.transpose_a() : product.transpose_b();
    if (!alongK && which == 0) continue;
    const bool last = which == 0 ? product.transpose_b() : !product.transpose_a();
    Value* factors[2] = {other, other};
    factors[which] = at->second.value;
    if (alongK) factors[1 - which] = wide(other, other->type.rank() - (last ? 1 : 2), 0);
    Value* made = builder_.op(Opcode::matmul, {factors[0], factors[1]}, op.attrs);
    if (alongK) {
      std::swap(made->name, op.result()->name);
      op.result()->uses.replaceAll(made);
    } else {
      cutOff(op, made);
    }
    return true;
  }
  return false;
}

/// The sum over all rows of a padded value, without the padding.
void ClassPadder::sum(Op& op, const Padded& padded) {
  Value* made = builder_.sum(padded.value, as::sum(op).axes(), as::sum(op).keepdims());
  cutOff(op, made);
}

/// Replaces an operand by its padded value where the op can take that, else by the slice without padding.
void ClassPadder::visit(Op& op) {
  if (!anyUse(op, [&](const Value* value) { return padded_.contains(value); })) return;
  builder_.setBefore(&op).setLoc(op.loc);
  auto first = op.numOperands() > 0 ? padded_.find(op.in(0)) : padded_.end();
  const bool isFirst = first != padded_.end();
  switch (op.code) {
  case Opcode::cast:
    if (!keepsColumns(op)) break;
    return set(op, builder_.cast(first->second.value, op.result()->type.dtype), first->second.filled);
  case Opcode::reshape: {
    if (!keepsColumns(op)) break;
    Shape shape = op.result()->type.shape;
    shape[shape.rank() - 1] += padding(count_);
    return set(op, builder_.reshape(first->second.value, shape), first->second.filled);
  }
  case Opcode::add: {
    const int which = isFirst ? 0 : 1;
    const Padded& own = isFirst ? first->second : padded_.at(as::add(op).rhs());
    Value* other = op.in(1 - which);
    if (!keepsColumns(op) || padded_.contains(other) || own.value->type.rank() < op.result()->type.rank())
      break;
    Value* more = wide(other, other->type.rank() - 1, own.filled ? 0 : lowest_);
    return set(op, builder_.binary(Opcode::add, own.value, more), true);
  }
  case Opcode::cross_entropy:
    if (!isFirst || !first->second.filled || !canPad(op)) break;
    op.operands[0].value = first->second.value;
    op.operands[1].value = outside(as::cross_entropy(op).targets());
    return;
  case Opcode::cross_entropy_grad: {
    if (!isFirst || !first->second.filled || !canPad(op)) break;
    const as::cross_entropy_grad grad(op);
    return set(op, builder_.op(op.code, {first->second.value, outside(grad.targets()), grad.dy()}, op.attrs),
               false);
  }
  case Opcode::matmul:
    if (multiply(op)) return;
    break;
  case Opcode::sum:
    if (op.result()->type.elements() != count_ || first->second.filled) break;
    return sum(op, first->second);
  default: break;
  }
  forEachUse(op, [&](Value*& value) {
    if (padded_.contains(value)) value = narrow(*value);
  });
}

/// Pads the result of a product and what follows from it.
void ClassPadder::pad(Op& product) {
  const as::matmul old(product);
  count_ = product.result()->type.shape.back();
  lowest_ = -info(*dtypeNamed(old.precision())).largest;
  padded_.clear();
  slices_.clear();
  builder_.setBefore(&product).setLoc(product.loc).setHint("");
  Value* rhs = wide(old.rhs(), old.rhs()->type.rank() - (old.transpose_b() ? 2 : 1), 0);
  Value* logits = builder_.op(Opcode::matmul, {old.lhs(), rhs}, product.attrs);
  // A bias that is added brings the lowest numbers along.
  const Op& reader = *product.result()->uses.begin()->user();
  const bool hasBias = product.result()->uses.hasOne() && reader.code == Opcode::add && keepsColumns(reader);
  if (!hasBias) {
    Value* zeros = builder_.constant(0, Type::tensor(DType::f32, {count_}));
    logits = builder_.binary(Opcode::add, logits, wide(zeros, 0, lowest_));
  }
  set(product, logits, !hasBias);
  for (Op* op = product.next(); op; op = op->next()) visit(*op);
}

void ClassPadder::run() {
  for (Op *op = ops_.front(), *next = nullptr; op; op = next) {
    next = op->next();
    if (starts(*op)) pad(*op);
  }
  eraseUnread(ops_);
}

}  // namespace
}  // namespace tg::fuse

tg::Result<void> tg::run_pad_classes(Module& module, const NoOptions&, const PassContext&) {
  return fuse::rewriteFunctions<fuse::ClassPadder>(module, fuse::targetOn(module, "pad-classes"));
}
