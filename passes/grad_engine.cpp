// SPDX-License-Identifier: Apache-2.0
#include "passes/grad_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "ir/infer.h"
#include "ir/unread.h"
#include "passes/grad_rules/entries.h"
#include "passes/grad_rules/grad_rules.h"

namespace tg {

Result<std::vector<Value*>> GradEngine::trainingGradients(Value* loss, const std::vector<Value*>& wrt) {
  marksSeed_ = true;
  return gradients(loss, wrt);
}

Result<std::vector<Value*>> GradEngine::gradients(Value* loss, const std::vector<Value*>& wrt) {
  auto& ops = func_.body.ops;
  forward_ = ops.all();
  active_.insert(wrt.begin(), wrt.end());
  markActive(forward_);
  builder_.setHint("");
  if (active_.count(loss)) {
    builder_.setLoc(derivedLoc("grad", loss->loc));
    Value* seed = builder_.constant(1, loss->type);
    if (marksSeed_) seed->def->setAttr("seed", Attr::boolean(true));
    accumulate(loss, seed);
    if (auto walked = backward(forward_); !walked) {
      while (ops.size() > forward_.size()) ops.erase(ops.back());
      return walked.takeError().note(loss->loc, "on the way from the loss %{}", loss->name);
    }
  }
  if (onRemark_) remarkCuts(loss, wrt);
  std::vector<Value*> out;
  for (Value* value : wrt) {
    Value*& gradient = gradients_[value];
    if (!gradient) {
      builder_.setLoc(derivedLoc("grad", value->loc));
      gradient = builder_.constant(0, value->type);
      unnamed_.insert(gradient);
    }
    nameAfter(gradient, value);
    out.push_back(gradient);
  }
  eraseUnread(ops, forward_.empty() ? nullptr : forward_.back(), {out.begin(), out.end()});
  return out;
}

/// Remarks, for each value of `wrt` that the loss depends on but that has no gradient, the first op at which the gradient is
/// lost. Conditions and tg.stop_gradient do not count as dependences.
void GradEngine::remarkCuts(const Value* loss, const std::vector<Value*>& wrt) const {
  auto flows = [](const Op& op, const Value* from) {
    return op.info().scalar != Scalar::stop_gradient && from->type.dtype != DType::i1;
  };
  std::unordered_set<const Value*> useful{loss};
  for (size_t i = forward_.size(); i-- > 0;) {
    const Op& op = *forward_[i];
    bool reaches = std::ranges::any_of(op.results, [&](const auto& result) {
      return useful.count(result.get()) && result->type.dtype != DType::i1;
    });
    if (!reaches) continue;
    forEachUse(op, [&](Value* value) {
      if (flows(op, value)) useful.insert(value);
    });
  }
  for (const Value* value : wrt) {
    if (gradients_.count(value) || !useful.count(value)) continue;
    std::unordered_set<const Value*> after{value};
    for (const Op* each : forward_) {
      const Op& op = *each;
      bool takes = false, cuts = false;
      forEachUse(op, [&](Value* used) {
        takes |= after.count(used) && flows(op, used);
        cuts |= after.count(used) && flows(op, used) && active_.count(used);
      });
      if (!takes) continue;
      for (const auto& result : op.results) {
        after.insert(result.get());
        cuts = cuts && !active_.count(result.get());
      }
      bool reaches =
          std::ranges::any_of(op.results, [&](const auto& result) { return useful.count(result.get()) > 0; });
      if (!cuts || !reaches) continue;
      onRemark_(
          {Severity::remark,
           op.loc,
           fmt::format(
               "no gradient passes this {}, so %{} gets none; write tg.stop_gradient if this is intended",
               op.info().name, value->name),
           {}});
      break;
    }
  }
}

/// Marks the floating-point results of ops that read an active value.
void GradEngine::markActive(const std::vector<Op*>& ops) {
  for (const Op* each : ops) {
    const Op& op = *each;
    if (hasNoGradient(op.info().scalar)) continue;
    if (!anyUse(op, [&](const Value* value) { return active_.contains(value); })) continue;
    for (const auto& result : op.results)
      if (isFloat(result->type.dtype)) active_.insert(result.get());
  }
}

Result<void> GradEngine::backward(const std::vector<Op*>& ops) {
  for (size_t i = ops.size(); i-- > 0;) TG_CHECK(differentiate(*ops[i]));
  return {};
}

/// Adds the optional results that the text left out of an op: its gradient rule reads them.
static void addOptionalResults(Op& op, Builder& builder) {
  const table::Results& row = op.info().results;
  if (row.variadic || static_cast<int>(op.results.size()) == row.count) return;
  std::unordered_map<const Value*, Value*> none;
  std::unique_ptr<Op> whole = cloneOp(op, none);
  whole->results.clear();
  auto types = infer(*whole, builder.module());
  assert(types && "a verified op infers");
  for (size_t i = op.results.size(); i < types->size(); ++i) {
    op.addResult((*types)[i], builder.names().unique(op.result()->name + "_saved"));
  }
}

/// Adds to the gradients of an op's operands by its rule, if one of its results has a gradient and one operand is active.
Result<void> GradEngine::differentiate(Op& op) {
  std::vector<Value*> resultGrads;
  bool reached = false;
  for (const auto& result : op.results) {
    Value* const* known = valueIn(gradients_, result.get());
    resultGrads.push_back(known ? *known : nullptr);
    if (!resultGrads.back()) continue;
    reached = true;
    nameAfter(resultGrads.back(), result.get());
  }
  std::vector<bool> wanted;
  for (const Operand& operand : op.operands)
    wanted.push_back(operand.kind == Operand::Kind::value && active_.count(operand.value));
  if (!reached || !contains(wanted, true)) return {};

  if (!inDecomposition_) builder_.setLoc(derivedLoc("grad", op.loc));
  const GradEntry& entry = gradEntry(op.code);
  addOptionalResults(op, builder_);
  resultGrads.resize(op.results.size());
  if (entry.kind == GradKind::decomposes) return byDecomposition(op, resultGrads);
  if (!entry.apply && op.code != Opcode::custom)
    return failAt(op.loc,
                  "append-grad [append-grad.c6]: {} has no gradient: {}; cut the path with tg.stop_gradient "
                  "if this is intended",
                  op.info().name, entry.text);
  GradContext context{op, builder_, resultGrads, wanted};
  std::vector<TensorExpr> grads;
  if (op.code == Opcode::custom) {
    TG_TRY(grads, grad_rules::custom(context, checkpoint_, onRemark_));
  } else {
    grads = entry.apply(context);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i] || !wanted[i]) continue;
    Value* operand = op.operands[i].value;
    Value* gradient = builder_.sumTo(grads[i].value, operand->type.shape);
    accumulate(operand, builder_.cast(gradient, operand->type.dtype));
  }
  return {};
}

/// Emits the op's decomposition again and differentiates that.
Result<void> GradEngine::byDecomposition(Op& op, const std::vector<Value*>& resultGrads) {
  std::vector<Value*> operands;
  for (const Operand& operand : op.operands) operands.push_back(operand.value);
  OpList& ops = func_.body.ops;
  const Op* last = ops.back();
  std::vector<Value*> results = decompose(op, operands, builder_);
  std::vector<Op*> made;
  for (Op* each = last ? last->next() : ops.front(); each; each = each->next()) made.push_back(each);
  markActive(made);
  for (size_t i = 0; i < results.size(); ++i)
    if (resultGrads[i]) accumulate(results[i], resultGrads[i]);
  bool outer = std::exchange(inDecomposition_, true);
  TG_CHECK(backward(made));
  inDecomposition_ = outer;
  return {};
}

/// Adds to the gradient of a value.
void GradEngine::accumulate(Value* value, Value* gradient) {
  Value*& sum = gradients_[value];
  if (gradient->def && !sum) unnamed_.insert(gradient);
  if (sum) {
    sum = builder_.binary(Opcode::add, sum, gradient);
    unnamed_.insert(sum);
  } else {
    sum = gradient;
  }
}

/// Names a complete gradient d_NAME, after the first value that it belongs to.
void GradEngine::nameAfter(Value* gradient, const Value* value) {
  if (unnamed_.erase(gradient)) gradient->name = builder_.names().unique("d_" + value->name);
}

}  // namespace tg
