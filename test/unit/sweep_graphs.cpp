// SPDX-License-Identifier: Apache-2.0
#include "test/unit/sweep_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "ir/builder.h"
#include "ir/infer.h"

namespace tg::test {

namespace {

constexpr int64_t kWidths[] = {4, 8, 5};  ///< of the params: a vector, two, and none

/// Grows one function. Every value stays of order 1, so that no rounding is magnified.
class Grower {
 public:
  Grower(Module& module, Item* func, uint32_t seed) : func_(func), builder_(&module, func), random_(seed) {
    const int64_t rows = kRows[pick(4)];
    for (int i = 0; i < 3; ++i) {
      Shape shape = {rows, kWidths[pick(3)]};
      if (pick(3) == 0) shape = {2, rows, kWidths[pick(3)]};
      values_.push_back(func->body.addArg(Type::tensor(DType::f32, shape), fmt::format("x{}", i)));
    }
    ids_ = func->body.addArg(Type::tensor(DType::i32, {rows}), "ids");
  }

  void grow(int ops) {
    while (static_cast<int>(func_->body.ops.size()) < ops) {
      Value* value = step(any());
      if (value && value->type.elements() <= 2000) values_.push_back(value);
    }
    finish();
  }

 private:
  static constexpr int64_t kRows[] = {1, 6, 8, 17};

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  /// Late values more often, so that chains grow long; early ones still, so that values have several readers.
  Value* any() {
    const int n = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(pick(3) ? std::max(n - 1 - pick(2), 0) : pick(n))];
  }
  Value* op(Opcode code, const std::vector<Value*>& in, AttrList attrs = {}) {
    return builder_.op(code, in, std::move(attrs));
  }
  Value* scaled(Value* x, double factor) { return op(Opcode::mul, {x, builder_.scalar(factor)}); }
  Value* param(const std::string& name) {
    const Item* item = builder_.module()->storage(name);
    Op* read = builder_.create(Opcode::param, {Operand::symbol(name)}, {}, {item->type});
    return read->result();
  }

  Value* step(Value* x) {
    switch (pick(12)) {
    case 0:
    case 1: return map(x);
    case 2:
    case 3: return pair(x);
    case 4:
    case 5: return product(x);
    case 6:
    case 7: return row(x);
    case 8: return reduction(x);
    case 9:
    case 10: return view(x);
    default: return indexing(x);
    }
  }
  Value* map(Value* x) {
    using enum Opcode;
    static constexpr Opcode codes[] = {tanh, sigmoid, relu, gelu, neg, abs, erf};
    Value* y = op(codes[pick(7)], {x});
    return pick(3) == 0 ? scaled(op(square, {y}), 0.5) : y;
  }
  /// A residual or a product with another value that broadcasts.
  Value* pair(Value* x) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      Value* other = any();
      auto joined = broadcast(x->type.shape, other->type.shape);
      if (!joined || joined->elements() > 2000) continue;
      switch (pick(4)) {
      case 0: return op(Opcode::mul, {x, op(Opcode::tanh, {other})});
      case 1: return op(Opcode::max, {other, x});
      case 2:
        return op(Opcode::select, {op(Opcode::less, {values_[0], builder_.scalar(0.1)}),
                                   scaled(values_[0], 0.5), values_[0]});
      default: return scaled(op(Opcode::add, {x, other}), 0.7);
      }
    }
    return nullptr;
  }
  Value* product(Value* x) {
    if (x->type.rank() < 2) return nullptr;
    if (pick(3) == 0) {
      // Against itself, transposed by flag: scores of rows.
      const double scale = 1.0 / static_cast<double>(x->type.shape.back());
      return scaled(op(Opcode::matmul, {x, x}, {{"transpose_b", Attr::boolean(true)}}), scale);
    }
    const int64_t width = x->type.shape.back();
    if (std::find(std::begin(kWidths), std::end(kWidths), width) == std::end(kWidths)) return nullptr;
    Value* w = param(fmt::format("w{}x{}", width, kWidths[pick(3)]));
    Value* y = scaled(op(Opcode::matmul, {x, w}), 0.5);
    if (pick(2)) y = op(Opcode::add, {y, param(fmt::format("b{}", y->type.shape.back()))});
    return pick(2) ? op(Opcode::relu, {y}) : y;
  }
  Value* row(Value* x) {
    const int rank = x->type.rank();
    if (rank == 0) return nullptr;
    switch (pick(4)) {
    case 0: return op(Opcode::softmax, {x}, {{"axis", Attr::of(int64_t{pick(rank)})}});
    case 1: return rank < 2 ? nullptr : op(Opcode::softmax, {x}, {{"causal", Attr::boolean(true)}});
    case 2: return scaled(op(Opcode::log_softmax, {x}), 0.3);
    default: {
      const int64_t width = x->type.shape.back();
      if (std::find(std::begin(kWidths), std::end(kWidths), width) == std::end(kWidths)) return nullptr;
      Value* b = param(fmt::format("b{}", width));
      return op(Opcode::layer_norm, {x, b, b}, {{"eps", Attr::of(0.1)}});
    }
    }
  }
  Value* reduction(Value* x) {
    const int rank = x->type.rank();
    if (rank == 0) return nullptr;
    static constexpr Opcode codes[] = {Opcode::mean, Opcode::max_reduce, Opcode::mean};
    const bool keep = pick(2);
    std::vector<int64_t> axes = {pick(rank)};
    if (rank > 1 && pick(3) == 0) axes = {0, rank - 1};
    Value* r = builder_.reduce(codes[pick(3)], x, axes, keep);
    return keep && pick(2) ? op(Opcode::sub, {x, r}) : r;
  }
  Value* view(Value* x) {
    const Shape shape = x->type.shape;
    const int rank = shape.rank();
    if (rank == 0) return builder_.broadcastTo(x, {3, 4});
    std::vector<int64_t> low(static_cast<size_t>(rank), 0), high(shape.begin(), shape.end()), perm;
    const auto axis = static_cast<size_t>(pick(rank));
    switch (pick(9)) {
    case 5:
      if (high[axis] < 3) return nullptr;
      low[axis] = pick(2);
      return op(Opcode::slice, {x},
                {{"starts", Attr::ints(low)},
                 {"limits", Attr::ints(high)},
                 {"strides", Attr::ints(stepsOf(rank, axis, 2 + pick(2)))}});
    case 6:
      return op(Opcode::pad, {x},
                {{"low", Attr::ints(low)},
                 {"high", Attr::ints(std::vector<int64_t>(static_cast<size_t>(rank), pick(2)))},
                 {"interior", Attr::ints(stepsOf(rank, axis, 1 + pick(2), 0))}});
    case 7: return op(Opcode::flip, {x}, {{"axes", Attr::ints({static_cast<int64_t>(axis)})}});
    case 8: return arranged(x, static_cast<int64_t>(axis));
    case 0:
      for (int i = rank; i-- > 0;) perm.push_back(i);
      return builder_.transpose(x, perm);
    case 1:
      return builder_.reshape(x, shape.elements() % 4 == 0 ? Shape{4, shape.elements() / 4}
                                                           : Shape{shape.elements(), 1});
    case 2:
      if (high[axis] < 3) return nullptr;
      low[axis] = 1, high[axis] -= pick(2);
      return op(Opcode::slice, {x}, {{"starts", Attr::ints(low)}, {"limits", Attr::ints(high)}});
    case 3: {
      std::vector<int64_t> behind(static_cast<size_t>(rank), 0);
      low[axis] = pick(3), behind[axis] = 1 + pick(2);
      return op(Opcode::pad, {x}, {{"low", Attr::ints(low)}, {"high", Attr::ints(behind)}});
    }
    default:
      return op(Opcode::concat, {x, op(Opcode::tanh, {x}), x},
                {{"axis", Attr::of(static_cast<int64_t>(axis))}});
    }
  }
  /// `step` along the axis, `rest` along the others.
  static std::vector<int64_t> stepsOf(int rank, size_t axis, int64_t step, int64_t rest = 1) {
    std::vector<int64_t> steps(static_cast<size_t>(rank), rest);
    steps[axis] = step;
    return steps;
  }
  /// Composites of views.
  Value* arranged(Value* x, int64_t axis) {
    const int rank = x->type.rank();
    switch (pick(4)) {
    case 0:
      return op(Opcode::swap_axes, {x},
                {{"axis0", Attr::of(axis)}, {"axis1", Attr::of(int64_t{pick(rank)})}});
    case 1:
      return rank > 3 ? nullptr : op(Opcode::stack, {x, op(Opcode::tanh, {x})}, {{"axis", Attr::of(axis)}});
    case 2:
      return op(Opcode::tile, {x}, {{"repeats", Attr::ints(stepsOf(rank, static_cast<size_t>(axis), 2))}});
    default: {
      const int64_t extent = x->type.shape[static_cast<int>(axis)];
      if (extent < 2) return nullptr;
      Op* parts = builder_.create(Opcode::split, {Operand::of(x)},
                                  {{"axis", Attr::of(axis)}, {"sizes", Attr::ints({1, extent - 1})}});
      values_.push_back(parts->result(0));
      return parts->result(1);
    }
    }
  }
  Value* indexing(Value* x) {
    switch (pick(4)) {
    case 3: {
      if (x->type.rank() != 1) return nullptr;
      return op(Opcode::take_along_axis, {x, ids_}, {{"axis", Attr::of(int64_t{0})}});
    }
    case 0: return x->type.rank() == 0 ? nullptr : op(Opcode::gather, {x, ids_});
    case 1:
      if (x->type.rank() == 0 || x->type.shape[0] != ids_->type.shape[0]) return nullptr;
      return scaled(op(Opcode::scatter_add, {ids_, x}, {{"rows", Attr::of(int64_t{5})}}), 0.3);
    default: return op(Opcode::one_hot, {ids_}, {{"depth", Attr::of(int64_t{5})}});
    }
  }

  /// Captures one value on the way, returns the last two and a mean of another.
  void finish() {
    OperandList returned;
    auto give = [&](Value* value) {
      func_->results.push_back({fmt::format("r{}", func_->results.size()), value->type});
      returned.push_back(Operand::of(value));
    };
    Value* kept = any();
    builder_.create(Opcode::capture, {Operand::of(kept)}, {{"name", Attr::string("kept")}});
    Value* last = values_.back();
    give(last);
    Value* other = any();
    if (other != last) give(other);
    Value* x = any();
    std::vector<int64_t> axes;
    for (int i = 0; i < x->type.rank(); ++i) axes.push_back(i);
    if (!axes.empty()) give(builder_.reduce(Opcode::mean, op(Opcode::square, {x}), axes, false));
    builder_.create(Opcode::return_, std::move(returned));
  }

  Item* func_;
  Builder builder_;
  std::mt19937 random_;
  std::vector<Value*> values_;
  Value* ids_ = nullptr;
};

}  // namespace

void addGraphParams(Module& module) {
  for (int64_t rows : kWidths) {
    module.add(ItemKind::param, fmt::format("b{}", rows))->type = Type::tensor(DType::f32, {rows});
    for (int64_t columns : kWidths)
      module.add(ItemKind::param, fmt::format("w{}x{}", rows, columns))->type =
          Type::tensor(DType::f32, {rows, columns});
  }
}

void addGraph(Module& module, uint32_t seed) {
  Item* func = module.add(ItemKind::func, fmt::format("f{}", seed));
  Grower(module, func, seed).grow(6 + static_cast<int>(seed % 9));
}

std::map<std::string, NdArray> graphInputs(const Module& module, const std::string& function, uint32_t seed) {
  std::mt19937 random(seed);
  std::map<std::string, NdArray> out;
  auto draw = [&](const std::string& name, const Type& type) {
    NdArray array = NdArray::zeros(type);
    for (double& value : array.data)
      value = type.dtype == DType::i32 ? static_cast<double>(random() % 7) - 1
                                       : roundTo(DType::f32, random() / 2147483648.0 - 1);
    out.emplace(name, std::move(array));
  };
  if (function.empty())
    for (const Item* item : module.all(ItemKind::param)) draw(item->name, item->type);
  else
    for (const auto& arg : module.func(function)->body.args) draw(arg->name, arg->type);
  return out;
}

}  // namespace tg::test
