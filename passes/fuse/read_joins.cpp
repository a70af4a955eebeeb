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
//
// The same for a tg.concat. A piece may be a group itself: the states of a cell that is written out step by step, each of
// which is the join of its gates. Values may be in several groups if one of these is a part of the other.
#include "passes/fuse/read_joins.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/kernel/custom.h"
#include "ir/op_view.h"
#include "ir/tensor_expr.h"
#include "passes/fuse/inline_ops.h"
#include "passes/fuse/region_writer.h"

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
  std::vector<Piece> pieces;    ///< in order along the axis
  std::vector<Value*> members;  ///< the values that it reads, those of each piece one behind the other
};

bool isView(const Op& op) { return op.code == Opcode::reshape || op.code == Opcode::transpose; }

/// The views in front of a piece, and what they view.
void addViews(const Value& of, Piece& piece) {
  const Value* value = throughCasts(&of);
  for (; value->def && isView(*value->def); value = throughCasts(value->def->in(0)))
    piece.views.push_back(value->def);
  std::ranges::reverse(piece.views);
  piece.arg = value;
}

/// The piece that a tg.pad places along one axis. All pads of a join share `axis`; -1 on the first call, which sets it.
std::optional<Piece> pieceOf(const Op& pad, int& axis) {
  const std::optional<PadPlace> place = padPlace(pad);
  if (!place || (axis >= 0 && axis != place->axis)) return {};
  axis = place->axis;
  Piece piece;
  piece.low = place->low;
  addViews(*pad.in(0), piece);
  return piece;
}

/// Collects the operands of a tg.concat.
bool addOperands(const Op& concat, Join& join) {
  const int axis = normalAxis(as::concat(concat).axis(), concat.result()->type.rank());
  if (join.axis >= 0) return false;
  join.axis = axis;
  int64_t at = 0;
  for (const Operand& operand : concat.operands) {
    addViews(*operand.value, join.pieces.emplace_back());
    join.pieces.back().low = at;
    at += operand.value->type.shape[axis];
  }
  return true;
}

/// Collects the pads whose sum a value is, or what it concatenates; false if it has other terms.
bool addPieces(const Value& sum, Join& join) {
  const Op* op = throughCasts(&sum)->def;
  if (!op) return false;
  if (op->code == Opcode::add)
    return addPieces(*as::add(*op).lhs(), join) && addPieces(*as::add(*op).rhs(), join);
  if (op->code == Opcode::concat) return addOperands(*op, join);
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
  std::ranges::sort(join.pieces, {}, &Piece::low);
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

/// The values that an argument of a kernel stands for: one, or the members of a group; null for symbols.
std::vector<Value*> sourcesOf(const Op& region, const Value& arg) {
  for (int binding = 0; binding < region.numOperands(); ++binding)
    if (region.operands[binding].value == &arg) return bindingSources(region, binding);
  return {};
}

/// Whether values can be a group: each stands there once, and every group that has some of them is a part of it or has it as
/// a part.
bool fitsGroups(const std::vector<Value*>& members) {
  if (std::unordered_set<const Value*>(members.begin(), members.end()).size() < members.size()) return false;
  auto holds = [](const std::vector<Value*>& run, const std::vector<Value*>& part) {
    return std::search(run.begin(), run.end(), part.begin(), part.end()) != run.end();
  };
  std::unordered_set<const Op*> seen;
  for (const Value* member : members)
    for (const Use& use : member->uses) {
      if (!seen.insert(use.user()).second) continue;
      for (int binding = 0; binding < use.user()->numOperands(); ++binding) {
        const Operand& operand = use.user()->operands[binding];
        if (operand.kind != Operand::Kind::binding || !operand.bindsGroup()) continue;
        const std::vector<Value*> group = bindingSources(*use.user(), binding);
        const bool meets =
            std::find_first_of(group.begin(), group.end(), members.begin(), members.end()) != group.end();
        if (meets && !holds(group, members) && !holds(members, group)) return false;
      }
    }
  return true;
}

/// The join that a kernel computes, if it does nothing else and its pieces can become a group; otherwise nothing.
std::optional<Join> joinOf(Op& op, const Target& target) {
  if (op.code != Opcode::fused || !op.groups.empty() || op.results.size() != 1) return {};
  std::optional<Join> join = evenJoin(*op.regions[0]->terminator()->in(0));
  if (!join) return {};
  join->region = &op;
  const Type& type = op.result()->type;
  for (const Piece& piece : join->pieces) {
    // Each piece must be the whole result of a kernel, or of several in a group.
    int64_t elements = 0;
    for (Value* value : sourcesOf(op, *piece.arg)) {
      const bool own =
          value && value->def && value->def->code == Opcode::fused && value->def->groups.empty() &&
          value->type.dtype == type.dtype &&
          std::ranges::none_of(value->uses, [](const Use& use) { return isBoundary(*use.user()); });
      if (!own || value->type.bytes() % target.alignment != 0) return {};
      elements += value->type.elements();
      join->members.push_back(value);
    }
    if (elements != piece.arg->type.elements()) return {};
  }
  if (!fitsGroups(join->members)) return {};
  const Piece& first = join->pieces[0];
  const bool read = !op.result()->uses.empty() &&
                    std::all_of(op.result()->uses.begin(), op.result()->uses.end(), [](const Use& use) {
                      const Op& reader = *use.user();
                      return reader.code == Opcode::fused && reader.groups.empty() && !customOf(reader);
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
  std::vector<int64_t> perm = allAxes(view->type.rank());
  std::rotate(perm.begin(), perm.begin() + 1, perm.begin() + 1 + join.axis);
  return builder.reshape(builder.transpose(view, perm), join.region->result()->type.shape);
}

/// The reader, rewritten to read the pieces.
std::unique_ptr<Op> reading(const Op& reader, const Join& join, const Target& target) {
  const Value* joined = join.region->result();
  RegionWriter writer(reader.loc);
  for (const Operand& operand : reader.operands) {
    const Operand& source = operand.items[0];
    if (source.kind != Operand::Kind::value || source.value != joined) {
      writer.define(operand.value, writer.bind(source, *operand.value));
      continue;
    }
    const Type flat = Type::tensor(joined->type.dtype, {joined->type.elements()});
    Value* group = writer.bind(Operand::group(join.members), flat, joined->name);
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
  const bool isOwn = std::ranges::all_of(join->pieces, [](const Piece& piece) {
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
  if (op && op->code == Opcode::concat) {
    std::vector<Value*> pieces;
    for (const Operand& operand : op->operands) pieces.push_back(rounded(builder, *operand.value, dtype));
    return builder.op(op->code, pieces, op->attrs);
  }
  if (op && (op->code == Opcode::pad || isView(*op)))
    return builder.op(op->code, {rounded(builder, *op->in(0), dtype)}, op->attrs);
  if (op && op->code == Opcode::cast && op->in(0)->type.dtype == dtype) return &value;  // is rounded
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
