// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/rewrites.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "ir/builder.h"
#include "ir/kernel/axis_names.h"
#include "ir/kernel/element.h"
#include "ir/kernel/inline.h"

namespace tg {

namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<uint32_t>::max();

/// An extent of the grid; empty where it is not defined.
using Extent = std::optional<int64_t>;

Extent inRange(__int128 value) {
  if (value > std::numeric_limits<int64_t>::max() || value < std::numeric_limits<int64_t>::min()) return {};
  return static_cast<int64_t>(value);
}

}  // namespace

std::optional<int64_t> combineExtents(std::string_view name, int64_t x, int64_t y) {
  const __int128 a = x, b = y;
  if (name == "add") return inRange(a + b);
  if (name == "sub") return inRange(a - b);
  if (name == "mul") return inRange(a * b);
  if (name == "min") return inRange(std::min(a, b));
  if (name == "max") return inRange(std::max(a, b));
  if (b == 0) return {};
  __int128 quotient = a / b - (a % b != 0 && (a < 0) != (b < 0));  // rounded down
  return inRange(name == "div" || quotient * b == a ? quotient : quotient + 1);
}

namespace {

bool isFunction(std::string_view name) {
  constexpr std::string_view known[] = {"ceildiv", "div", "add", "sub", "mul", "min", "max"};
  return std::ranges::find(known, name) != std::end(known);
}

template <class... Args>
Error gridError(const Item& kernel, fmt::format_string<Args...> format, Args&&... args) {
  return failAt(kernel.loc, "kernel @{} [kernel.grid]: {}", kernel.name,
                fmt::format(format, std::forward<Args>(args)...));
}

int parameterIndex(const Item& kernel, const Value* value) {
  const auto& args = kernel.body.args;
  auto at = std::ranges::find_if(args, [&](const auto& arg) { return arg.get() == value; });
  return at == args.end() ? -1 : static_cast<int>(at - args.begin());
}

Result<void> checkDim(const Item& kernel, const Operand& dim) {
  bool formed = dim.items.size() == 2 && dim.items[0].kind == Operand::Kind::value &&
                dim.items[1].isLiteral() && dim.items[1].isInteger;
  if (!formed) return gridError(kernel, "needs dim(%parameter, axis)");
  const Value& value = *dim.items[0].value;
  if (parameterIndex(kernel, &value) < 0) return gridError(kernel, "%{} is not a parameter", value.name);
  int64_t axis = dim.items[1].integer;
  if (axis < 0 || axis >= value.type.rank()) return gridError(kernel, "%{} has no axis {}", value.name, axis);
  return {};
}

Result<void> checkExtent(const Item& kernel, const Operand& extent) {
  if (extent.isLiteral()) {
    if (extent.isInteger) return {};
    return gridError(kernel, "an extent of {}", extent.number());
  }
  if (extent.kind == Operand::Kind::keyword && extent.text == "dim") return checkDim(kernel, extent);
  if (extent.kind != Operand::Kind::keyword || !isFunction(extent.text))
    return gridError(
        kernel, "an extent is a number, dim(%p, axis), or ceildiv, div, add, sub, mul, min or max of two");
  if (extent.items.size() != 2)
    return gridError(kernel, "{} takes 2 extents, not {}", extent.text, extent.items.size());
  for (const Operand& item : extent.items) TG_CHECK(checkExtent(kernel, item));
  return {};
}

Extent evaluate(const Item& kernel, const std::vector<Shape>& shapes, const Operand& extent) {
  if (extent.isLiteral()) return extent.integer;
  if (extent.text == "dim") {
    const Shape& shape = shapes[static_cast<size_t>(parameterIndex(kernel, extent.items[0].value))];
    return shape[static_cast<int>(extent.items[1].integer)];
  }
  Extent a = evaluate(kernel, shapes, extent.items[0]), b = evaluate(kernel, shapes, extent.items[1]);
  if (!a || !b) return {};
  return combineExtents(extent.text, *a, *b);
}

}  // namespace

Result<void> checkGrid(const Item& kernel) {
  if (kernel.grid.empty() || kernel.grid.size() > 3)
    return gridError(kernel, "{} extents, not 1 to 3", kernel.grid.size());
  for (const Operand& extent : kernel.grid) {
    TG_CHECK(checkExtent(kernel, extent));
    if (extent.isLiteral() && (extent.integer < 1 || extent.integer > kMaxExtent))
      return gridError(kernel, "an extent of {}", extent.integer);
  }
  return {};
}

Result<std::array<int64_t, 3>> evaluateGrid(const Item& kernel, const std::vector<Shape>& shapes) {
  TG_CHECK(checkGrid(kernel));
  assert(shapes.size() == kernel.body.args.size());
  std::array<int64_t, 3> grid{1, 1, 1};
  for (size_t axis = 0; axis < kernel.grid.size(); ++axis) {
    Extent extent = evaluate(kernel, shapes, kernel.grid[axis]);
    if (!extent) return gridError(kernel, "axis {} divides by zero or overflows", axis);
    if (*extent < 1 || *extent > kMaxExtent)
      return gridError(kernel, "axis {} has {} workgroups", axis, *extent);
    grid[axis] = *extent;
  }
  return grid;
}

namespace {

/// The first axis on which a literal index lies outside the buffer's extents; -1 if there is none.
int axisOutside(const Operand& element) {
  const Shape& shape = element.value->type.shape;
  for (int axis = 0; axis < static_cast<int>(element.items.size()); ++axis)
    if (element.items[axis].isLiteral() && shape[axis] != Shape::kDynamic &&
        element.items[axis].integer >= shape[axis])
      return axis;
  return -1;
}

/// Turns literal indices outside these extents into values. The verifier rejects such literals, but under a guard
/// that fails for these extents the access is never executed, and the kernel is correct.
class OutsideIndices {
 public:
  explicit OutsideIndices(Item& kernel) : build_(kernel.body) { block(kernel.body); }

 private:
  void block(Block& block) {
    for (Op* op : block.ops) {
      for (auto& region : op->regions) this->block(*region);
      for (Operand& operand : op->operands)
        while (operand.kind == Operand::Kind::element && axisOutside(operand) >= 0)
          asValue(operand.items[static_cast<size_t>(axisOutside(operand))], *op);
    }
  }

  void asValue(Operand& index, Op& op) {
    index.value =
        literalValue(build_.setBefore(&op).setLoc(op.loc), index, Type::scalar(DType::u32), "outside");
    index.kind = Operand::Kind::value;
  }

  Builder build_;
};

}  // namespace

Result<void> checkIndices(const Item& kernel, const std::vector<Shape>& shapes) {
  const auto& args = kernel.body.args;
  for (Op* op : kernel.body.ops) {
    const Operand* element = elementOf(*op);
    int param = element ? parameterIndex(kernel, element->value) : -1;
    for (size_t axis = 0; param >= 0 && axis < element->items.size(); ++axis) {
      const Operand& index = element->items[axis];
      int64_t extent = shapes[static_cast<size_t>(param)][static_cast<int>(axis)];
      if (index.isLiteral() && index.integer >= extent)
        return failAt(op->loc, "{}: index {} of axis {} of %{} is not in 0..{}", op->info().name,
                      index.integer, axis, args[static_cast<size_t>(param)]->name, extent - 1);
    }
  }
  return {};
}

std::unique_ptr<Item> specialize(const Item& kernel, const std::vector<Shape>& shapes) {
  auto grid = evaluateGrid(kernel, shapes);
  assert(grid && "specialize: evaluateGrid refuses these shapes");
  std::unique_ptr<Item> copy = cloneItem(kernel);
  for (size_t index = 0; index < shapes.size(); ++index) {
    copy->body.args[index]->type.shape = shapes[index];
    erase(copy->body.args[index]->attrs, kAxisNames);
  }
  OutsideIndices{*copy};
  copy->grid.clear();
  for (int64_t extent : *grid) copy->grid.push_back(Operand::literal(extent));
  return copy;
}

}  // namespace tg
