// SPDX-License-Identifier: Apache-2.0
// Removes concatenations as in this example. The gradients of queries, keys and values are results of attention's kernels.
// Side by side in the rows of one matrix they are the gradient of the product that computed all three:
//
//   before:  %d = tg.fused (%dq = %dq, %dk = %dk) {…} : tensor<4x6xbf16> {
//              %q = tg.pad %dq {low = [0, 0], high = [0, 3]}   %k = tg.pad %dk {low = [0, 3], high = [0, 0]}
//              %d = tg.add %q, %k
//            }
//            %y = tg.fused (%d = %d) { … }
//   after:   %y = tg.fused (%d = [%dq, %dk]) {                                         // a tensor<24xbf16>
//              %a = tg.reshape %d {shape = [2, 4, 3]}   %b = tg.transpose %a {perm = [1, 0, 2]}
//              %d = tg.reshape %b {shape = [4, 6]}   …
//            }
#include "passes/fuse/read_joins.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/op_view.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/region_writer.h"
#include "passes/fuse/slice.h"

namespace tg::fuse {
namespace {

/// A value that a join puts somewhere: in a kernel, an argument.
struct Piece {
  const Value* arg = nullptr;
  std::vector<const Op*> views;  ///< from the argument to the pad, in order
  int64_t low = 0;               ///< its position along the axis of the join
};

/// A kernel that only concatenates.
struct Join {
  Op* region = nullptr;
  int axis = -1;
  std::vector<Piece> pieces;  ///< in order along the axis
};

/// The value at the start of a chain of casts.
const Value* throughCasts(const Value* value) {
  while (value->def && value->def->code == Opcode::cast) value = value->def->in(0);
  return value;
}

bool isView(const Op& op) { return op.code == Opcode::reshape || op.code == Opcode::transpose; }

/// The piece that a tg.pad places along one axis. All pads of a join share `axis`; -1 on the first call, which sets it.
std::optional<Piece> pieceOf(const Op& pad, int& axis) {
  Piece piece;
  const as::pad view(pad);
  const std::vector<int64_t> low = view.low(), high = view.high(), interior = view.interior();
  if (view.value() != 0 || std::any_of(interior.begin(), interior.end(), [](int64_t n) { return n != 0; }))
    return {};
  for (int at = 0; at < static_cast<int>(low.size()); ++at) {
    const auto place = static_cast<size_t>(at);
    if (low[place] == 0 && high[place] == 0) continue;
    if (axis >= 0 && axis != at) return {};
    axis = at;
    piece.low = low[place];
  }
  const Value* value = throughCasts(pad.in(0));
  for (; value->def && isView(*value->def); value = throughCasts(value->def->in(0)))
    piece.views.push_back(value->def);
  std::reverse(piece.views.begin(), piece.views.end());
  piece.arg = value;
  return piece;
}

/// Collects the pads whose sum a value is; false if it has other terms.
bool addPieces(const Value& sum, Join& join) {
  const Op* op = throughCasts(&sum)->def;
  if (!op) return false;
  if (op->code == Opcode::add)
    return addPieces(*as::add(*op).lhs(), join) && addPieces(*as::add(*op).rhs(), join);
  if (op->code != Opcode::pad) return false;
  std::optional<Piece> piece = pieceOf(*op, join.axis);
  if (!piece) return false;
  join.pieces.push_back(*std::move(piece));
  return true;
}

bool sameViews(const Piece& a, const Piece& b) {
  return a.arg->type == b.arg->type &&
         std::equal(
             a.views.begin(), a.views.end(), b.views.begin(), b.views.end(), [](const Op* x, const Op* y) {
               return x->code == y->code && x->result()->type == y->result()->type &&
                      (x->code == Opcode::reshape || as::transpose(*x).perm() == as::transpose(*y).perm());
             });
}

/// The pieces of a value, in order along one axis, if it is nothing but at least two values of one type side by side.
std::optional<Join> evenJoin(const Value& value) {
  Join join;
  if (!addPieces(value, join) || join.pieces.size() < 2 || join.axis < 0) return {};
  std::sort(join.pieces.begin(), join.pieces.end(),
            [](const Piece& a, const Piece& b) { return a.low < b.low; });
  const auto count = static_cast<int64_t>(join.pieces.size());
  const int64_t extent = value.type.shape[join.axis] / count;
  for (int64_t i = 0; i < count; ++i) {
    const Piece& piece = join.pieces[static_cast<size_t>(i)];
    if (piece.low != i * extent || !sameViews(piece, join.pieces[0]) ||
        piece.arg->type.elements() * count != value.type.elements())
      return {};
  }
  return join;
}

/// Whether at least a sector of 32 bytes of neighbours in a piece are neighbours in the join.
bool keepsNeighbours(const Piece& piece, const Type& type) {
  int64_t together = piece.arg->type.shape.back();
  for (const Op* view : piece.views) {
    if (view->code == Opcode::transpose &&
        as::transpose(*view).perm().back() != view->result()->type.rank() - 1)
      return false;
    together = std::min(together, view->result()->type.shape.back());
  }
  return together * byteSize(type.dtype) >= 32;
}

/// The join that a kernel computes, if it does nothing else and its pieces can become a group; otherwise nothing.
std::optional<Join> joinOf(Op& op, const Target& target) {
  if (op.code != Opcode::fused || !op.groups.empty() || op.results.size() != 1) return {};
  std::optional<Join> join = evenJoin(*op.regions[0]->terminator()->in(0));
  if (!join) return {};
  join->region = &op;
  const Type& type = op.result()->type;
  const std::unordered_map<const Value*, Value*> outside = outsideOf(op);
  for (const Piece& piece : join->pieces) {
    // Each piece must be the whole result of a kernel, with no other reader and in no other group.
    auto source = outside.find(piece.arg);
    if (source == outside.end()) return {};
    const Value& value = *source->second;
    const bool own = value.def && value.def->code == Opcode::fused && value.def->groups.empty() &&
                     value.uses.hasOne() && value.type.dtype == type.dtype;
    if (!own || value.type.elements() != piece.arg->type.elements() ||
        value.type.bytes() % target.alignment != 0)
      return {};
  }
  const Piece& first = join->pieces[0];
  const bool read = !op.result()->uses.empty() &&
                    std::all_of(op.result()->uses.begin(), op.result()->uses.end(), [](const Use& use) {
                      const Op& reader = *use.user();
                      return reader.code == Opcode::fused && reader.groups.empty() &&
                             reader.regions[0]->ops.front()->code != Opcode::custom;
                    });
  if (!read || first.arg->type.rank() >= kMaxRank || type.rank() >= kMaxRank || !keepsNeighbours(first, type))
    return {};
  return join;
}

/// The joined value as views of the group of its pieces, which lie one behind the other in `flat`.
Value* viewOf(Builder& builder, const Join& join, Value* flat) {
  const auto count = static_cast<int64_t>(join.pieces.size());
  auto withCount = [&](const Shape& shape) {
    Shape out{count};
    for (int64_t extent : shape) out.push(extent);
    return out;
  };
  Value* view = builder.reshape(flat, withCount(join.pieces[0].arg->type.shape));
  for (const Op* op : join.pieces[0].views) {
    if (op->code == Opcode::reshape) {
      view = builder.reshape(view, withCount(op->result()->type.shape));
      continue;
    }
    std::vector<int64_t> perm{0};
    for (int64_t axis : as::transpose(*op).perm()) perm.push_back(axis + 1);
    view = builder.transpose(view, perm);
  }
  std::vector<int64_t> perm(static_cast<size_t>(view->type.rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin(), perm.begin() + 1, perm.begin() + 1 + join.axis);
  return builder.reshape(builder.transpose(view, perm), join.region->result()->type.shape);
}

/// The reader, rewritten to read the pieces.
std::unique_ptr<Op> reading(const Op& reader, const Join& join, const Target& target) {
  const Value* joined = join.region->result();
  const std::unordered_map<const Value*, Value*> outside = outsideOf(*join.region);
  std::vector<Value*> members;
  for (const Piece& piece : join.pieces) members.push_back(outside.at(piece.arg));
  RegionWriter writer(reader.loc);
  for (const Operand& operand : reader.operands) {
    const Operand& source = operand.items[0];
    if (source.kind != Operand::Kind::value || source.value != joined) {
      writer.define(operand.value, writer.bind(source, *operand.value));
      continue;
    }
    const Type flat = Type::tensor(joined->type.dtype, {joined->type.elements()});
    Value* group = writer.bind(Operand::group(members), flat, joined->name);
    writer.define(operand.value, viewOf(writer.builder(), join, group));
  }
  const std::vector<Value*> yielded = writer.copyBody(reader);
  for (const auto& result : reader.results) writer.addResult(*result);
  writer.yield(yielded);
  return writer.finish(target);
}

/// Whether a cast rounds a join whose pieces the kernels that make them can round. The join in f32 may have other readers.
bool roundsPieces(const Op& op, const Target& target) {
  if (op.code != Opcode::cast || !isNarrow(op.result()->type.dtype) || !op.in(0)->def) return false;
  const std::optional<Join> join = evenJoin(*op.in(0));
  if (!join || !keepsNeighbours(join->pieces[0], op.result()->type)) return false;
  const auto count = static_cast<int64_t>(join->pieces.size());
  const bool isOwn = std::all_of(join->pieces.begin(), join->pieces.end(), [](const Piece& piece) {
    const Op* maker = piece.arg->def;
    return piece.arg->type.dtype == DType::f32 && maker && keepsElements(*maker) && !isInline(*maker) &&
           piece.arg->uses.hasOne() && !evenJoin(*piece.arg);
  });
  return isOwn && op.result()->type.bytes() / count % target.alignment == 0 &&
         std::all_of(op.result()->uses.begin(), op.result()->uses.end(), [](const Use& use) {
           return !isBoundary(*use.user()) && use.user()->code != Opcode::custom;
         });
}

/// A join with all pieces rounded to `dtype` before they are put somewhere.
Value* rounded(Builder& builder, Value& value, DType dtype) {
  const Op* op = value.def;
  if (op && op->code == Opcode::add)
    return builder.binary(Opcode::add, rounded(builder, *as::add(*op).lhs(), dtype),
                          rounded(builder, *as::add(*op).rhs(), dtype));
  if (op && (op->code == Opcode::pad || isView(*op)))
    return builder.op(op->code, {rounded(builder, *op->in(0), dtype)}, op->attrs);
  builder.setHint(fmt::format("{}_{}", value.name, name(dtype)));
  return builder.cast(builder.cast(&value, dtype), value.type.dtype);
}

}  // namespace

void roundPieces(Item& func, const Target& target) {
  if (target.matmul != "shared") return;
  NameTable names(func);
  Builder builder(func.body.ops, &names);
  for (Op* op : func.body.ops) {
    if (!roundsPieces(*op, target)) continue;
    builder.setBefore(op).setLoc(op->loc);
    op->operands[0].value = rounded(builder, *op->in(0), op->result()->type.dtype);
  }
}

void readJoins(Item& func, const Target& target) {
  if (target.matmul != "shared") return;  // on CPUs it is faster to read one joined tensor
  for (Op *op = func.body.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    const std::optional<Join> join = joinOf(*op, target);
    if (!join) continue;
    while (!op->result()->uses.empty()) {
      Op* reader = op->result()->uses.begin()->user();
      std::unique_ptr<Op> made = reading(*reader, *join, target);
      for (size_t i = 0; i < made->results.size(); ++i)
        reader->results[i]->uses.replaceAll(made->results[i].get());
      if (reader == next) next = made.get();
      func.body.ops.insert(reader, std::move(made));
      func.body.ops.erase(reader);
    }
    func.body.ops.erase(op);
  }
}

}  // namespace tg::fuse
