// SPDX-License-Identifier: Apache-2.0
#include "passes/grad_rules/entries.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel/axis_names.h"
#include "ir/kernel/custom.h"
#include "passes/kernel/vjp.h"
#include "passes/rewrite.h"

namespace tg::grad_rules {
namespace {

/// Builds the call of a VJP kernel: collects a tensor for each parameter that takes one, and a type for each result.
class CustomGradient {
 public:
  CustomGradient(const GradContext& context, const Item& kernel)
      : c_(context), kernel_(kernel), params_(customParams(kernel)) {}

  Result<void> checkTapes(const Item* vjp) const;
  Result<Grads> generated(int64_t checkpoint, const DiagnosticHandler& onRemark);
  Result<Grads> written(const Item& vjp);

 private:
  int indexOf(std::string_view name) const;
  const Type& primalType(int param) const;
  Value* primalValue(int param) const;
  Value* cotangent(int param);
  Value* zeros(const Type& type) { return c_.builder.constant(0, type); }
  bool wantsInput(int param) const;
  std::vector<std::string> wanted() const;
  std::vector<std::string> reached() const;
  void bind(const Value& arg, Value* input, const Type& result, int gradientOf);
  Result<Grads> call(const Item& vjp);

  const GradContext& c_;
  const Item& kernel_;
  std::vector<CustomParam> params_;
  OperandList inputs_;
  std::vector<Type> results_;
  std::vector<int>
      gradientOf_;  ///< for each result, the forward kernel's parameter whose gradient it is, or -1
};

int CustomGradient::indexOf(std::string_view name) const {
  const auto& args = kernel_.body.args;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i]->name == name) return static_cast<int>(i);
  return -1;
}

/// The tensor that a parameter was bound to; for an inout, the operand.
Value* CustomGradient::primalValue(int param) const {
  const CustomParam& bound = params_[static_cast<size_t>(param)];
  return bound.input >= 0 ? c_.op.in(bound.input + 1) : c_.op.result(bound.result);
}

const Type& CustomGradient::primalType(int param) const { return primalValue(param)->type; }

bool CustomGradient::wantsInput(int param) const {
  int input = params_[static_cast<size_t>(param)].input;
  return input >= 0 && c_.wants(input + 1) && isFloat(primalType(param).dtype);
}

/// The gradient of a result in f32; zeros if it has none.
Value* CustomGradient::cotangent(int param) {
  int result = params_[static_cast<size_t>(param)].result;
  Type type = primalType(param);
  type.dtype = DType::f32;
  Value* gradient = result < 0 ? nullptr : c_.resultGrads[static_cast<size_t>(result)];
  if (!gradient) return zeros(type);
  return gradient->type.dtype == DType::f32 ? gradient : c_.builder.cast(gradient, DType::f32);
}

/// Names of the parameters whose gradients are wanted.
std::vector<std::string> CustomGradient::wanted() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < params_.size(); ++i)
    if (wantsInput(static_cast<int>(i))) out.push_back(kernel_.body.args[i]->name);
  return out;
}

/// Names of the parameters whose results have gradients.
std::vector<std::string> CustomGradient::reached() const {
  std::vector<std::string> out;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Value& arg = *kernel_.body.args[i];
    int result = params_[i].result;
    if (result >= 0 && c_.resultGrads[static_cast<size_t>(result)] && isFloat(arg.type.dtype))
      out.push_back(arg.name);
  }
  return out;
}

/// Adds the input and the result of a parameter, as its mode requires.
void CustomGradient::bind(const Value& arg, Value* input, const Type& result, int gradientOf) {
  BufMode mode = arg.type.mode;
  if (mode == BufMode::in || mode == BufMode::inout) inputs_.push_back(Operand::of(input));
  if (mode == BufMode::in) return;
  results_.push_back(result);
  gradientOf_.push_back(gradientOf);
}

/// Calls the VJP and returns the gradients. Fails if the VJP does not accept these shapes, or has no workgroup for them.
Result<Grads> CustomGradient::call(const Item& vjp) {
  OperandList operands{Operand::symbol(vjp.name)};
  operands.insert(operands.end(), inputs_.begin(), inputs_.end());
  Result<Op*> made = c_.builder.tryCreate(Opcode::custom, std::move(operands), {}, results_);
  if (!made) return made.takeError().note(vjp.loc, "@{} is the gradient of @{}", vjp.name, kernel_.name);
  const Op* op = *made;
  Grads grads(c_.op.operands.size());
  for (size_t i = 0; i < results_.size(); ++i) {
    if (gradientOf_[i] < 0) continue;
    Value* gradient = op->result(static_cast<int>(i));
    DType dtype = primalType(gradientOf_[i]).dtype;
    if (dtype != DType::f32) gradient = c_.builder.cast(gradient, dtype);
    grads[static_cast<size_t>(params_[static_cast<size_t>(gradientOf_[i])].input) + 1] = {&c_.builder,
                                                                                          gradient};
  }
  return grads;
}

/// An error if the loss depends on a tape. A VJP by hand may take its cotangent.
Result<void> CustomGradient::checkTapes(const Item* vjp) const {
  for (const std::string& name : reached()) {
    if (kernel_.body.args[static_cast<size_t>(indexOf(name))]->type.mode != BufMode::tape) continue;
    if (vjp && std::ranges::any_of(vjp->body.args, [&](const auto& arg) { return arg->name == "d_" + name; }))
      continue;
    return failAt(c_.op.loc,
                  "append-grad [append-grad.c10]: the loss depends on %{0} of @{1}, a tape, which is scratch "
                  "without a gradient; make it a result: %{0}: buf<…, out>",
                  name, kernel_.name);
  }
  return {};
}

/// The gradient by a VJP that kernel-vjp derives.
Result<Grads> CustomGradient::generated(int64_t checkpoint, const DiagnosticHandler& onRemark) {
  KernelVjpRequest request{wanted(), reached(), kernel_.name + ".vjp", checkpoint};
  if (request.wrt.empty() || request.of.empty()) return Grads(c_.op.operands.size());
  Module& module = *c_.builder.module();
  TG_TRY(KernelVjp vjp, differentiateKernel(module, kernel_, request));
  if (onRemark)
    for (const Diagnostic& remark : vjp.remarks) onRemark(remark);
  std::vector<Shape> shapes = boundShapes(c_.op, kernel_);
  std::vector<Type> tapes;
  for (size_t i = 0; i < vjp.params.size(); ++i) {
    Type buffer = vjp.kernel->body.args[i]->type;
    if (vjp.params[i].role == KernelVjpParam::Role::tape) {
      TG_TRY(buffer.shape, tapeShape(vjp, static_cast<int>(i), kernel_, shapes));
    }
    if (buffer.lanes > 1) buffer.shape[buffer.shape.rank() - 1] *= buffer.lanes;
    tapes.push_back(Type::tensor(buffer.dtype == DType::u32 ? DType::i32 : buffer.dtype, buffer.shape));
  }
  const Item* made = &placeKernel(module, std::move(vjp.kernel), &kernel_);
  const std::vector<KernelVjpParam>& params = vjp.params;
  for (size_t i = 0; i < params.size(); ++i) {
    const Value& arg = *made->body.args[i];
    int of = indexOf(params[i].of);
    using Role = KernelVjpParam::Role;
    Role role = params[i].role;
    if (role == Role::tape) {
      bind(arg, nullptr, tapes[i], -1);
    } else if (role == Role::primal) {
      bind(arg, primalValue(of), primalType(of), -1);
    } else {
      Type type = primalType(of);
      type.dtype = DType::f32;
      bool gives = wantsInput(of) && (role == Role::gradient || role == Role::adjoint);
      bind(arg, role == Role::gradient ? nullptr : cotangent(of), type, gives ? of : -1);
    }
  }
  return call(*made);
}

/// The gradient by a VJP that the kernel names with vjp(@…). Its parameters are matched by name: x and d_x. Others are
/// scratch, whose named axes have the extents of those of the matched ones.
Result<Grads> CustomGradient::written(const Item& vjp) {
  auto primalOf = [&](const Value& arg) { return indexOf(arg.name); };
  auto adjointOf = [&](const Value& arg) {
    return arg.name.starts_with("d_") ? indexOf(arg.name.substr(2)) : -1;
  };
  AxisExtents extents;
  for (const auto& arg : vjp.body.args)
    if (const int of = std::max(primalOf(*arg), adjointOf(*arg)); of >= 0)
      if (const auto shape = boundShape(primalType(of), arg->type)) addExtents(*arg, *shape, extents);
  for (const auto& arg : vjp.body.args) {
    const int primal = primalOf(*arg), of = adjointOf(*arg);
    if (primal >= 0) {
      bind(*arg, primalValue(primal), primalType(primal), -1);
    } else if (of >= 0) {
      const CustomParam& bound = params_[static_cast<size_t>(of)];
      Type type = primalType(of);
      if (isFloat(type.dtype)) type.dtype = DType::f32;
      bool gives = bound.input >= 0 && arg->type.mode != BufMode::in && c_.wants(bound.input + 1);
      bool takes = arg->type.mode == BufMode::in || arg->type.mode == BufMode::inout;
      bind(*arg, takes ? cotangent(of) : nullptr, type, gives ? of : -1);
    } else {
      const std::optional<Shape> shape = namedShape(*arg, extents);
      if (!shape)
        return failAt(arg->loc ? arg->loc : vjp.loc,
                      "append-grad [append-grad.c9]: %{} of @{} is scratch with an open extent; give it a "
                      "fixed extent, or the name of an axis of another parameter",
                      arg->name, vjp.name);
      Type type = Type::tensor(arg->type.dtype == DType::u32 ? DType::i32 : arg->type.dtype, *shape);
      if (arg->type.lanes > 1) type.shape[type.shape.rank() - 1] *= arg->type.lanes;
      bind(*arg, nullptr, type, -1);
    }
  }
  return call(vjp);
}

}  // namespace

Result<Grads> custom(const GradContext& context, int64_t checkpoint, const DiagnosticHandler& onRemark) {
  const Module& module = *context.builder.module();
  const Item* kernel = customKernel(context.op, module);
  CustomGradient gradient(context, *kernel);
  const Attr* own = find(kernel->attrs, "vjp");
  const Item* vjp = own ? module.find(ItemKind::kernel, own->text) : nullptr;
  TG_CHECK(gradient.checkTapes(vjp));
  return vjp ? gradient.written(*vjp) : gradient.generated(checkpoint, onRemark);
}

// grad_engine.cpp calls custom above directly, because it may fail.
GradEntry gradient(at::custom) { return rule("the kernel's vjp(@…), else that of kernel-vjp", nullptr); }

}  // namespace tg::grad_rules
