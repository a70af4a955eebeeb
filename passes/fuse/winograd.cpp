// SPDX-License-Identifier: Apache-2.0
// Winograd's algorithm. In one dimension, two results of a filter g of three taps on four elements d take four
// multiplications instead of six:
//
//   y = Aᵀ·((G·g) ⊙ (Bᵀ·d))        y0 = d0·g0 + d1·g1 + d2·g2,  y1 = d1·g0 + d2·g1 + d3·g2
//
// In two dimensions the matrices are applied from both sides, to tiles of 4x4 elements that overlap by two. The sum over
// channels is a product of matrices for each of the 16 elements of a tile:
//
//   %v = tg.custom @winograd_image(%x)     : 16xCxP    Bᵀ·d·B of each tile; P = N·⌈H/2⌉·⌈W/2⌉
//   %u = tg.custom @winograd_filter(%w)    : 16xKxC    G·g·Gᵀ of each filter
//   %m = tg.matmul %u, %v                  : 16xKxP
//   %y = tg.custom @winograd_result(%m)    : NxKxHxW   Aᵀ·m·A of each tile, 2x2 results
//
// The gradient of x is a convolution of dy with the filters turned by 180 degrees. The gradient of w is one of tiles of x
// with 2x2 tiles of dy as filters: three results of two taps, summed over all tiles.
#include "ir/divide.h"
#include "passes/fuse/split_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/schedule.h"
#include "ir/decompose/decompose.h"
#include "ir/kernel/builder.h"
#include "ir/op_view.h"
#include "ir/window.h"
#include "passes/fuse/cost.h"
#include "passes/fuse/inline_ops.h"
#include "passes/rewrite.h"

namespace tg::fuse {
namespace {

using decomposition::product;
using Grid = std::vector<std::vector<KV>>;  ///< the rows of a tile
using Sizes = std::array<int64_t, 2>;       ///< along H and W

/// A linear map of tiles, x → by·x·byᵀ. Tiles of an image NxCxHxW become matrices of C rows; filters KxCx3x3, each of which
/// is one tile, become matrices of K rows.
struct Transform {
  std::string_view name;
  std::vector<std::vector<double>> by;
  bool ofFilters = false;
  /// Which of the first two axes is the rows' axis of the matrices. The other one goes along the columns.
  int rowAxis() const { return ofFilters ? 0 : 1; }
  int64_t rows() const { return std::ssize(by); }
  int64_t columns() const { return std::ssize(by[0]); }
};

// Two results of three taps: Bᵀ, G, G for turned filters, Aᵀ.
const Transform kImage{"image", {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}};
const Transform kFilter{"filter", {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}}, true};
const Transform kTurnedFilter{"turned_filter", {{0, 0, 1}, {.5, .5, .5}, {.5, -.5, .5}, {1, 0, 0}}, true};
const Transform kResult{"result", {{1, 1, 1, 0}, {0, 1, -1, -1}}};
// Three results of two taps: Bᵀ, G, Aᵀ. The last row of Bᵀ has the other sign than in kImage. With equal matrices cse would
// merge the transform for the convolution with that for the gradient of w, and the transformed image, four times as large
// as the image, would be live between the two.
const Transform kGradImage{"grad_image", {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}}};
const Transform kGradFilter{"grad_filter", {{1, 0}, {.5, .5}, {.5, -.5}, {0, 1}}};
const Transform kGradResult{"grad_result", {{1, 1, 1, 0}, {0, 1, -1, 0}, {0, 1, 1, 1}}, true};

constexpr int64_t kStep = 2;       ///< from tile to tile of an image
constexpr int64_t kMatrices = 16;  ///< elements of a transformed tile

/// How an image is cut into tiles: zeros before it, elements from one tile to the next, and number of tiles.
struct Cut {
  Sizes before, step, count;
};

Sizes sizesOf(const Shape& image) { return {image[2], image[3]}; }

Sizes tilesOver(Sizes size, int64_t step) { return {divideCeil(size[0], step), divideCeil(size[1], step)}; }

/// Σ factors[i]·xs[i], without the terms that are zero.
KV combined(KernelBuilder& k, const std::vector<double>& factors, const std::vector<KV>& xs) {
  KV sum;
  bool isFirst = true;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (factors[i] == 0) continue;
    const bool minus = factors[i] < 0;
    const KV term = k.mul(xs[i], KernelBuilder::f32(std::abs(factors[i])));
    if (isFirst)
      sum = minus ? k.op(Opcode::k_neg, {term}) : term;
    else
      sum = k.op(minus ? Opcode::k_sub : Opcode::k_add, {sum, term});
    isFirst = false;
  }
  return sum;
}

Grid transformed(KernelBuilder& k, const Transform& transform, const Grid& x) {
  Grid out;
  for (const std::vector<double>& factors : transform.by) {
    std::vector<KV> row;
    for (size_t j = 0; j < x[0].size(); ++j) {
      std::vector<KV> column;
      for (const std::vector<KV>& each : x) column.push_back(each[j]);
      row.push_back(combined(k, factors, column));
    }
    std::vector<KV> both;
    for (const std::vector<double>& others : transform.by) both.push_back(combined(k, others, row));
    out.push_back(std::move(both));
  }
  return out;
}

/// The tile of an invocation: a row and a column of the matrices, and the indices of the tile's plane in NxCxHxW and of the
/// tile in its plane.
struct Tile {
  KV row, column;
  std::array<KV, 2> plane{}, place{};
};

class Writer {
 public:
  Writer(Builder& builder, const Target& target, WinogradContext& context)
      : builder_(builder), target_(target), context_(context) {}

  /// The tiles of NxCxHxW, transformed, as 16 matrices; what is outside of the image is 0.
  TensorExpr apart(const Transform& transform, Value* image, const Cut& cut);
  /// The image NxCxHxW of tiles that do not overlap, from 16 matrices.
  TensorExpr together(const Transform& transform, const TensorExpr& matrices, const Shape& image);
  /// The convolution of an image, with zeros before it, by filters KxCx3x3; with isGradient, by filters turned and from K
  /// channels to C.
  TensorExpr convolution(Value* image, Value* filters, Sizes before, const Shape& result, bool isGradient);
  TensorExpr weight(Value* image, Value* gradient, Sizes before, const Shape& result);

 private:
  using Body = std::function<void(KernelBuilder&, Value* x, Value* y, const Tile&)>;
  TensorExpr call(const Transform& transform, Value* x, const Shape& result, const Shape& image,
                  const Cut& cut, const Body& body);
  std::unique_ptr<Item> kernel(const Transform& transform, const Shape& x, const Shape& result,
                               const Shape& image, Sizes tiles, const Body& body) const;

  Builder& builder_;
  const Target& target_;
  WinogradContext& context_;
};

/// A kernel with an invocation for each tile of an image.
std::unique_ptr<Item> Writer::kernel(const Transform& transform, const Shape& x, const Shape& result,
                                     const Shape& image, Sizes tiles, const Body& body) const {
  const int rowAxis = transform.rowAxis();
  const int64_t each = tiles[0] * tiles[1], columns = image[1 - rowAxis] * each,
                group = preferredGroup(target_);
  auto item = std::make_unique<Item>();
  item->kind = ItemKind::kernel;
  item->loc = builder_.loc();
  item->workgroup[0] = group;
  item->grid = {Operand::literal(divideCeil(columns, group)), Operand::literal(image[rowAxis])};
  KernelBuilder k(item.get());
  Value* from = k.parameter(Type::buffer(DType::f32, 1, x, BufMode::in), "x");
  Value* to = k.parameter(Type::buffer(DType::f32, 1, result, BufMode::out), "y");
  auto quotient = [&](const KV& a, int64_t b) { return k.op(Opcode::k_div, {a, KernelBuilder::u32(b)}); };
  auto remainder = [&](const KV& a, int64_t b) { return k.op(Opcode::k_mod, {a, KernelBuilder::u32(b)}); };
  Tile tile{k.id(Opcode::k_workgroup_id, 1), k.id(Opcode::k_global_id, 0), {}, {}};
  k.guard(k.op(Opcode::k_lt, {tile.column, KernelBuilder::u32(columns)}), [&] {
    const KV number = remainder(tile.column, each);
    tile.plane[static_cast<size_t>(rowAxis)] = tile.row;
    tile.plane[static_cast<size_t>(1 - rowAxis)] = quotient(tile.column, each);
    tile.place = {quotient(number, tiles[1]), remainder(number, tiles[1])};
    body(k, from, to, tile);
  });
  return item;
}

/// Calls the kernel of a transform, which is added to the module by the first call with these shapes.
TensorExpr Writer::call(const Transform& transform, Value* x, const Shape& result, const Shape& image,
                        const Cut& cut, const Body& body) {
  const Type type = Type::tensor(DType::f32, result);
  const std::string key =
      fmt::format("{} of {} to {}, {} tiles, {} zeros before", transform.name, x->type.str(), type.str(),
                  fmt::join(cut.count, "x"), fmt::join(cut.before, "x"));
  std::string& name = context_.kernels[key];
  if (name.empty()) {
    auto item = kernel(transform, x->type.shape, result, image, cut.count, body);
    item->name = fmt::format("winograd_{}", transform.name);
    name = placeKernel(*builder_.module(), std::move(item)).name;
  }
  builder_.setHint(name);
  Op* called = builder_.create(Opcode::custom, {Operand::symbol(name), Operand::of(x)}, {}, {type});
  builder_.setHint("");
  return {&builder_, called->result()};
}

/// The elements of a tile along an axis of the image.
struct Along {
  std::vector<KV> index;     ///< the index in the image; of an element outside, some index
  std::vector<KV> isInside;  ///< whether the element is in the image
};

/// `number`: of the tile along the axis, where the cut makes `count` tiles, of an image with `size` elements.
Along along(KernelBuilder& k, const KV& number, int64_t extent, const Cut& cut, size_t axis, int64_t size) {
  Along out;
  const KV first = k.mul(number, KernelBuilder::u32(cut.step[axis]));
  for (int64_t a = 0; a < extent; ++a) {
    const int64_t offset = a - cut.before[axis], last = (cut.count[axis] - 1) * cut.step[axis] + offset;
    const KV at = k.op(offset < 0 ? Opcode::k_sub : Opcode::k_add,
                       {first, KernelBuilder::u32(std::abs(offset))});  // before the image it wraps around
    const bool always = offset >= 0 && last < size;
    out.index.push_back(always ? at : k.op(Opcode::k_min, {at, KernelBuilder::u32(size - 1)}));
    out.isInside.push_back(always ? KernelBuilder::literal(DType::i1, 1)
                                  : k.op(Opcode::k_lt, {at, KernelBuilder::u32(size)}));
  }
  return out;
}

TensorExpr Writer::apart(const Transform& transform, Value* image, const Cut& cut) {
  const Shape& shape = image->type.shape;
  const int rowAxis = transform.rowAxis();
  const Shape result{kMatrices, shape[rowAxis], shape[1 - rowAxis] * cut.count[0] * cut.count[1]};
  const Body body = [&](KernelBuilder& k, Value* x, Value* y, const Tile& tile) {
    const int64_t extent = transform.columns();
    const Along down = along(k, tile.place[0], extent, cut, 0, shape[2]),
                across = along(k, tile.place[1], extent, cut, 1, shape[3]);
    Grid elements;
    for (size_t a = 0; a < down.index.size(); ++a) {
      std::vector<KV>& row = elements.emplace_back();
      for (size_t b = 0; b < across.index.size(); ++b)
        row.push_back(k.select(k.op(Opcode::k_and, {down.isInside[a], across.isInside[b]}),
                               k.load(x, {tile.plane[0], tile.plane[1], down.index[a], across.index[b]}),
                               KernelBuilder::f32(0)));
    }
    int64_t matrix = 0;
    for (const std::vector<KV>& row : transformed(k, transform, elements))
      for (const KV& element : row)
        k.store(element, y, {KernelBuilder::u32(matrix++), tile.row, tile.column});
  };
  return call(transform, image, result, shape, cut, body);
}

TensorExpr Writer::together(const Transform& transform, const TensorExpr& matrices, const Shape& image) {
  const int64_t step = transform.rows(), side = transform.columns();
  const Cut cut{{0, 0}, {step, step}, tilesOver(sizesOf(image), step)};
  const Body body = [&](KernelBuilder& k, Value* x, Value* y, const Tile& tile) {
    Grid elements;
    for (int64_t a = 0; a < side; ++a) {
      std::vector<KV>& row = elements.emplace_back();
      for (int64_t b = 0; b < side; ++b)
        row.push_back(k.load(x, {KernelBuilder::u32(a * side + b), tile.row, tile.column}));
    }
    const Along down = along(k, tile.place[0], step, cut, 0, image[2]),
                across = along(k, tile.place[1], step, cut, 1, image[3]);
    const Grid results = transformed(k, transform, elements);
    for (size_t a = 0; a < results.size(); ++a)
      for (size_t b = 0; b < results.size(); ++b)
        k.guard(k.op(Opcode::k_and, {down.isInside[a], across.isInside[b]}), [&] {
          k.store(results[a][b], y, {tile.plane[0], tile.plane[1], down.index[a], across.index[b]});
        });
  };
  return call(transform, matrices.value, image, image, cut, body);
}

TensorExpr Writer::convolution(Value* image, Value* filters, Sizes before, const Shape& result,
                               bool isGradient) {
  const TensorExpr v = apart(kImage, image, {before, {kStep, kStep}, tilesOver(sizesOf(result), kStep)});
  const TensorExpr u = apart(isGradient ? kTurnedFilter : kFilter, filters, {{0, 0}, {1, 1}, {1, 1}});
  return together(kResult, product(u, v, isGradient, false), result);
}

TensorExpr Writer::weight(Value* image, Value* gradient, Sizes before, const Shape& result) {
  const Sizes step{kStep, kStep}, tiles = tilesOver(sizesOf(gradient->type.shape), kStep);
  const TensorExpr v = apart(kGradImage, image, {before, step, tiles});
  const TensorExpr u = apart(kGradFilter, gradient, {{0, 0}, step, tiles});
  return together(kGradResult, product(u, v, false, true), result);
}

/// Whether the transforms cost less than the multiplications they save, and what they make fits the target and `most`.
bool pays(const Shape& filters, int64_t images, Sizes result, const Target& target, int64_t most) {
  const int64_t inputs = filters[1], outputs = filters[0], widest = std::max(inputs, outputs);
  const Sizes count = tilesOver(result, kStep);
  const int64_t tiles = images * count[0] * count[1];
  const int64_t bytes =
      kMatrices * widest * std::max(tiles, std::min(inputs, outputs)) * byteSize(DType::f32);
  return inputs * outputs >= kLeastWinograd * (inputs + outputs) && tiles >= kLeastTiles &&
         bytes <= std::min(most, target.storageRange) && widest <= target.maxGrid &&
         tiles <= target.maxGrid * preferredGroup(target);
}

bool isOf3x3(const Window& window) {
  return std::ranges::all_of(
      window, [](const WindowAxis& axis) { return axis.size == 3 && axis.step == 1 && axis.dilation == 1; });
}

}  // namespace

TensorExpr winograd(Builder& builder, const Op& op, const Target& target, WinogradContext& context) {
  if (!isConvolution(op) || as::conv2d(op).groups() != 1 || target.matmul == "register") return {};
  for (const Operand& operand : op.operands)
    if (factorOf(*operand.value) != DType::f32) return {};
  const Shape& result = op.result()->type.shape;
  Writer writer(builder, target, context);
  if (op.code == Opcode::conv2d_grad_weight) {
    const as::conv2d_grad_weight grad(op);
    const Shape& dy = grad.dy()->type.shape;
    const Window window = windowOf(op);
    if (!isOf3x3(window) || !pays(result, dy[0], sizesOf(dy), target, context.most)) return {};
    return writer.weight(grad.x(), grad.dy(), {window[0].padding, window[1].padding}, result);
  }
  const bool isForward = op.code == Opcode::conv2d;
  // The operands of conv_transpose2d are in the order of conv2d's.
  Value *image = op.in(at::conv2d::x), *filters = op.in(at::conv2d::w);
  if (op.code == Opcode::conv2d_grad_input)
    image = op.in(at::conv2d_grad_input::dy), filters = op.in(at::conv2d_grad_input::w);
  const Window window = windowOf(op, sizesOf(filters->type.shape));
  if (!isOf3x3(window) || !pays(filters->type.shape, result[0], sizesOf(result), target, context.most))
    return {};
  Sizes before{window[0].padding, window[1].padding};
  if (!isForward)
    for (int64_t& zeros : before) zeros = 2 - zeros;
  if (std::min(before[0], before[1]) < 0) return {};
  return writer.convolution(image, filters, before, result, !isForward);
}

}  // namespace tg::fuse
