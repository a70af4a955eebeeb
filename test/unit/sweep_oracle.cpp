// SPDX-License-Identifier: Apache-2.0
#include "test/unit/sweep_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/infer.h"
#include "runtime/interp/eval_ops.h"

namespace tg::test {

namespace {

using ArrayList = std::vector<const NdArray*>;

/// The largest |element| of operands and results, for each row of the first operand.
class RowMagnitudes {
 public:
  RowMagnitudes(const Op& op, const ArrayList& in, const std::vector<NdArray>& out) : shape_(in[0]->shape()) {
    // A composite bounded by element has rows of one element each.
    axis_ = toleranceClass(op.info()) == ToleranceClass::map ? shape_.rank() : shape_.rank() - 1;
    if (op.info().attr("axis")) axis_ = normalAxis(op.intAttr("axis"), shape_.rank());
    if (op.info().attr("axes"))  // one row that holds everything
      length_ = shape_.elements();
    else
      for (int i = 0; i < shape_.rank(); ++i)
        (i < axis_ ? outer_ : i == axis_ ? length_ : inner_) *= shape_[i];
    rows_.assign(static_cast<size_t>(outer_ * inner_), 0.0);
    for (const NdArray* array : in)
      if (isFloat(array->type.dtype)) take(*array);
    for (const NdArray& array : out) take(array);
  }
  double at(const NdArray& result, size_t index) const {
    if (wholeRows(result)) return std::max(all_, rows_[rowOf(index)]);
    if (result.data.size() == rows_.size()) return std::max(all_, rows_[index]);
    return std::max(all_, *std::max_element(rows_.begin(), rows_.end()));
  }
  /// Terms that one element of the result sums.
  int64_t length(const NdArray& result) const {
    return wholeRows(result) || result.data.size() == rows_.size() ? length_ : shape_.elements();
  }

 private:
  bool wholeRows(const NdArray& array) const { return array.shape() == shape_; }
  size_t rowOf(size_t index) const {
    const auto i = static_cast<int64_t>(index);
    return static_cast<size_t>(i / (length_ * inner_) * inner_ + i % inner_);
  }
  void take(const NdArray& array) {
    for (size_t i = 0; i < array.data.size(); ++i) {
      double& largest = wholeRows(array)                                             ? rows_[rowOf(i)]
                        : array.data.size() == rows_.size() && array.data.size() > 1 ? rows_[i]
                                                                                     : all_;
      largest = std::max(largest, std::fabs(array.data[i]));
    }
  }

  Shape shape_;
  int axis_ = 0;
  int64_t outer_ = 1, length_ = 1, inner_ = 1;
  std::vector<double> rows_;
  double all_ = 0;  ///< of arrays that belong to no row: a gain, a factor
};

/// Terms of one sum.
int64_t termsOf(const Op& op, const ArrayList& in, const NdArray& out, size_t element) {
  switch (op.code) {
  case Opcode::sum:
  case Opcode::mean: return in[0]->shape().elements() / out.shape().elements();
  case Opcode::cumsum: return in[0]->shape()[normalAxis(op.intAttr("axis"), in[0]->shape().rank())];
  case Opcode::matmul: {
    const Shape& a = in[0]->shape();
    return a[a.rank() - (op.flag("transpose_a") ? 2 : 1)];
  }
  case Opcode::conv2d: return in[1]->shape().elements() / in[1]->shape()[0];
  case Opcode::conv_transpose2d: return in[1]->shape().elements() / in[1]->shape()[1] / op.intAttr("groups");
  case Opcode::conv2d_grad_input: return in[0]->shape().elements() / in[0]->shape()[1] / op.intAttr("groups");
  case Opcode::conv2d_grad_weight: return in[1]->shape().elements() / in[1]->shape()[1];
  case Opcode::fold: return in[0]->shape().back();
  case Opcode::max_pool2d_grad:
  case Opcode::avg_pool2d:
  case Opcode::avg_pool2d_grad: return op.ints("kernel")[0] * op.ints("kernel")[1];
  case Opcode::scatter_add: {
    const auto row =
        static_cast<double>(static_cast<int64_t>(element) / (out.shape().elements() / out.shape()[0]));
    return std::count(in[0]->data.begin(), in[0]->data.end(), row);
  }
  case Opcode::take_along_axis_grad: {
    const int axis = normalAxis(op.intAttr("axis"), out.shape().rank());
    int64_t after = 1, count = in[0]->shape()[axis], extent = out.shape()[axis], terms = 0;
    for (int i = axis + 1; i < out.shape().rank(); ++i) after *= out.shape()[i];
    const auto at = static_cast<int64_t>(element);
    for (int64_t n = 0; n < count; ++n)
      terms += in[0]->data[static_cast<size_t>((at / (after * extent) * count + n) * after + at % after)] ==
               static_cast<double>(at / after % extent);
    return terms;
  }
  default: return 1;
  }
}

std::vector<NdArray> tolerancesOf(const Op& op, const ArrayList& in, const std::vector<NdArray>& out) {
  const ToleranceClass kind = toleranceClass(op.info());
  std::vector<NdArray> tolerances;
  for (const NdArray& result : out)
    tolerances.push_back(NdArray::zeros(Type::tensor(DType::f32, result.shape())));
  if (kind == ToleranceClass::exact) return tolerances;
  const std::optional<NdArray> sums = evalMagnitude(op, in);
  std::optional<RowMagnitudes> rows;
  if (kind == ToleranceClass::map || kind == ToleranceClass::row) rows.emplace(op, in, out);
  for (size_t r = 0; r < out.size(); ++r)
    for (size_t i = 0; i < out[r].data.size(); ++i) {
      const double magnitude = rows ? rows->at(out[r], i) : sums ? sums->data[i] : std::fabs(out[r].data[i]);
      const int64_t terms = rows ? rows->length(out[r]) : termsOf(op, in, out[r], i);
      tolerances[r].data[i] = opTolerance(op.info(), terms, magnitude, out[r].type.dtype);
    }
  return tolerances;
}

/// A view moves tolerances as it moves values, but what it pads with is exact.
Result<std::vector<NdArray>> moved(const Op& view, const ArrayList& tolerances, EvalContext& context) {
  std::unordered_map<const Value*, Value*> none;
  std::unique_ptr<Op> op = cloneOp(view, none);
  tg::erase(op->attrs, "value");
  for (auto& result : op->results) result->type.dtype = DType::f32;
  return evalOp(*op, tolerances, context);
}

}  // namespace

std::map<std::string, Expected> expectedOf(const Module& module,
                                           const std::map<std::string, NdArray>& inputs) {
  const Item& func = *module.func("f");
  std::unordered_map<const Value*, Expected> at;
  for (const auto& arg : func.body.args) {
    const NdArray& value = inputs.at(arg->name);
    at[arg.get()] = {value, NdArray::zeros(Type::tensor(DType::f32, value.shape())), ToleranceClass::exact};
  }
  std::map<std::string, Expected> results;
  EvalContext context;
  for (Op* op : func.body.ops) {
    if (op->code == Opcode::return_) {
      for (int i = 0; i < op->numOperands(); ++i)
        results[func.results[static_cast<size_t>(i)].name] = at[op->in(i)];
      break;
    }
    ArrayList in, tolerances;
    bool exact = true;
    for (int i = 0; i < op->numOperands(); ++i) {
      const Expected& operand = at[op->in(i)];
      in.push_back(&operand.value), tolerances.push_back(&operand.tolerance);
      exact = exact && operand.kind == ToleranceClass::exact;
    }
    auto values = evalOp(*op, in, context);
    if (!values) {
      ADD_FAILURE() << values.error().str();
      return {};
    }
    const bool view = op->info().has(table::view);
    EXPECT_TRUE(exact || view) << op->info().name << " reads a value whose error is not zero";
    auto allowed = view ? moved(*op, tolerances, context) : tolerancesOf(*op, in, *values);
    if (!allowed) {
      ADD_FAILURE() << allowed.error().str();
      return {};
    }
    for (size_t i = 0; i < values->size(); ++i)
      at[op->result(static_cast<int>(i))] = {(*values)[i], (*allowed)[i],
                                             view ? at[op->in(0)].kind : toleranceClass(op->info())};
  }
  return results;
}

}  // namespace tg::test
