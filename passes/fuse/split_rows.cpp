// SPDX-License-Identifier: Apache-2.0
// split-rows: computes values with more bytes than a limit in pieces by rows, or by entries of the first axis, one after the
// other, so that the whole value never exists.
//
//   before:  %y = tg.matmul %x, %w : tensor<4096x50304xf32>   %l = tg.cross_entropy %y, %t : tensor<f32>
//   after:   %a = tg.slice %x {…}   %y_2 = tg.matmul %a, %w : tensor<2048x50304xf32>
//            %l_2 = tg.cross_entropy %y_2, … {reduction = sum}
//            …                                                       the same of the other rows
//
//   a row        what lies along the last axis; each row of a result follows from the same rows of the operands
//   by rows      products, elementwise ops, normalisations, softmax, cross entropy and their gradients
//   by entries   convolutions by images, products of many matrices, broadcasts, pools and other ops that keep the entries of
//                the first axis apart; what they sum over entries is added up in the order of the pieces (split_entries.cpp)
//   over rows    sums, mean losses, and products along the rows (gradients of weights): added up in the order of
//                the pieces
//   views        slices, pads, flips and transposes that move entries: parts of the operand's pieces (split_views.cpp)
//   joined       results whose rows are short enough to fit, and operands of any other op
//   side by side values that the host reads: pieces of one tg.adjoin, which no kernel binds whole
//   arguments    larger than a binding: results of a tg.disjoin, which are bound at their place in the argument
//   symbols      parameters and states larger than a binding: they are read and updated by entries of the first axis, their
//                gradients are computed by rows, and lookups search each piece
//
// Requires: stage(tensor), with tg.grad expanded. c1: a limit, or a target, whose binding is the limit.
// Ensures: nothing changes where all fits. Otherwise the ops of one piece follow one another, forward and backward, as far
//   as their operands allow, so that plan gives the next piece the bytes of the last. A remark names each value that was
//   split.
// Where: behind the optimizer, whose updates are split too; before flatten-optimizer, whose groups have members that fit.

#include <algorithm>
#include <utility>

#include "ir/access.h"
#include "ir/needs.h"
#include "ir/op_view.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/fuse/row_splitter.h"
#include "passes/fuse/target_of.h"
#include "passes/pass.h"

namespace tg::fuse {

/// Replaces a result by another value.
void RowSplitter::replace(Value* result, Value* value) {
  value->name = result->name;
  result->uses.replaceAll(value);
}

/// Replaces a result by these pieces, if it `stays` in pieces; otherwise by the tensor that joins them.
void RowSplitter::finish(Value* result, RowPieces pieces, bool stays) {
  if (stays && pieces.values.size() > 1)
    out_.set(result, std::move(pieces));
  else
    replace(result, out_.join(pieces.values, result->type));
}

/// The rows at which a value is cut if it is larger than `limit`; otherwise {0, rows}. A remark says that it is computed in
/// pieces or, if it is an argument, read. Pieces of an argument start where kernels can bind them.
RowBounds RowSplitter::boundsFor(const Value& value, int64_t limit) {
  const Type& type = value.type;
  const RowBounds one{0, rowCount(type)};
  if (type.bytes() <= limit) return one;
  RowBounds bounds =
      cutFinely(rowCount(type), type.shape.back() * byteSize(type.dtype), limit, value.def ? 1 : alignment_);
  // Whole entries where they fit: other ops need them.
  const int64_t count = entryCount(type);
  if (type.rank() > 2 && count < rowCount(type)) {
    RowBounds entries = cutRows(count, type.bytes() / count, limit);
    if (entries.size() > 2) {
      bounds = std::move(entries);
      for (int64_t& bound : bounds) bound *= rowCount(type) / count;
    }
  }
  if (bounds.size() < 3) return one;
  context_.remark(value.def ? value.def->loc : value.loc,
                  "%{} : {} takes {} bytes, more than {}; it is {} in {} pieces of {} rows", value.name,
                  type.str(), type.bytes(), limit, value.def ? "computed" : "read", bounds.size() - 1,
                  bounds[1]);
  return bounds;
}

/// Cuts an argument that is larger than a binding by a tg.disjoin, which only functions at a target may hold. An earlier run
/// may have cut it: then only that tg.disjoin reads it.
void RowSplitter::cut(Value& argument) {
  const Type& type = argument.type;
  const bool isCut =
      std::ranges::any_of(argument.uses, [](const Use& use) { return use.user()->code == Opcode::disjoin; });
  if (!out_.aimed() || isCut || type.rank() < 2 || type.bytes() <= binding_) return;
  RowPieces pieces{boundsFor(argument, binding_), {}, true};
  if (pieces.bounds.size() < 3) return;
  std::vector<Type> types;
  for (size_t i = 0; i + 1 < pieces.bounds.size(); ++i)
    types.push_back(Type::tensor(type.dtype, {pieces.bounds[i + 1] - pieces.bounds[i], type.shape.back()}));
  build().setLoc(argument.loc).setHint(argument.name);
  const Op* made = build().create(Opcode::disjoin, {Operand::of(&argument)}, {}, std::move(types));
  for (const auto& result : made->results) pieces.values.push_back(result.get());
  out_.set(&argument, std::move(pieces));
}

/// The bounds of an operand's pieces, for a result of this type; other bounds if its pieces would exceed a binding.
RowBounds RowSplitter::boundsLike(const RowPieces& pieces, const Type& type) const {
  const int64_t rowBytes = type.shape.back() * byteSize(type.dtype);
  if (mostRows(pieces.bounds) * rowBytes <= binding_) return pieces.bounds;
  RowBounds bounds = cutFinely(rowCount(type), rowBytes, limit_);
  return bounds.size() < 3 ? pieces.bounds : bounds;
}

/// The bounds of a parameter's or state's pieces along its first axis. Nothing if pieces that kernels can bind at their
/// place in it do not fit.
RowBounds RowSplitter::symbolBounds(const Type& type) const {
  return cutFinely(type.shape[0], type.bytes() / type.shape[0], binding_, alignment_);
}

/// Reads a parameter or state that is larger than a binding by entries of the first axis.
bool RowSplitter::symbol(const Op& op) {
  Type type = op.result()->type;
  if (namesRows(op) || type.rank() < 2 || type.bytes() <= binding_) return false;
  const RowBounds bounds = symbolBounds(type);
  if (bounds.size() < 3) return false;
  const int64_t rows = rowCount(type), each = rows / type.shape[0];
  context_.remark(
      op.loc, "@{} : {} takes {} bytes, more than {}; it is read and updated in {} pieces of {} rows",
      op.operands[0].text, type.str(), type.bytes(), binding_, bounds.size() - 1, bounds[1] * each);
  RowPieces pieces{{0}, {}, false};
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const int64_t from = bounds[i], to = bounds[i + 1], count = (to - from) * each;
    type.shape[0] = to - from;
    build().setHint(op.result()->name);
    Value* read = build()
                      .create(op.code, {Operand::symbol(op.operands[0].text)},
                              {{"rows", Attr::ints({from, to})}}, {type})
                      ->result();
    pieces.values.push_back(build().reshape(read, {count, type.shape.back()}));
    pieces.bounds.push_back(to * each);
  }
  finish(op.result(), std::move(pieces), true);
  return true;
}

/// Updates a parameter or state by entries of the first axis: those of the value's pieces, if these are whole entries and
/// start where kernels can bind them.
bool RowSplitter::update(const Op& op) {
  Value* value = as::update(op).value();
  Type type = value->type;
  if (namesRows(op) || type.rank() < 2) return false;
  const int64_t each = rowCount(type) / type.shape[0];
  const RowPieces* pieces = piecesOf(value);
  if (!pieces && type.bytes() <= binding_) return false;
  std::optional<RowBounds> whole;
  if (pieces && startAligned(pieces->bounds, type)) whole = inEntries(pieces->bounds, each);
  const RowBounds bounds = whole ? *whole : symbolBounds(type);
  if (bounds.size() < 3) return false;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const int64_t from = bounds[i], to = bounds[i + 1];
    type.shape[0] = to - from;
    Value* entries = build().reshape(out_.rows(value, from * each, to * each), type.shape);
    build().create(Opcode::update, {op.operands[0], Operand::of(entries)},
                   {{"rows", Attr::ints({from, to})}});
  }
  return true;
}

/// Whether all readers of a value read its rows piece by piece. Otherwise the pieces would be joined at once.
static bool readersTakeRows(const Value& value) {
  const int64_t width = value.type.shape.back();
  return std::ranges::all_of(value.uses, [&](const Use& use) {
    const Op& reader = *use.user();
    if (reader.code == Opcode::reshape)
      return reader.result()->type.rank() > 0 && reader.result()->type.shape.back() == width &&
             readersTakeRows(*reader.result());
    if (reader.code == Opcode::matmul) {
      const Type& rhs = as::matmul(reader).rhs()->type;
      return rowCount(rhs) == rhs.shape[rhs.rank() - 2];
    }
    return keepsElements(reader) || reader.info().fusion == table::Fusion::row ||
           reader.info().fusion == table::Fusion::reduce;
  });
}

/// Rows [mFrom, mTo) of a product of matrices, summing only terms [kFrom, kTo).
Value* RowSplitter::product(const Op& op, int64_t mFrom, int64_t mTo, int64_t kFrom, int64_t kTo) {
  const as::matmul matmul(op);
  Value* lhs = matmul.transpose_a() ? out_.columns(out_.rows(matmul.lhs(), kFrom, kTo), mFrom, mTo)
                                    : out_.columns(out_.rows(matmul.lhs(), mFrom, mTo), kFrom, kTo);
  auto times = [&](Value* rhs) {
    build().setHint(op.result()->name);
    Value* made = build().op(Opcode::matmul, {lhs, rhs}, op.attrs);
    build().setHint("");
    return made;
  };
  if (!matmul.transpose_b()) return times(out_.rows(matmul.rhs(), kFrom, kTo));
  // Rows of the right factor are columns of the result.
  const RowPieces* pieces = piecesOf(matmul.rhs());
  if (!pieces)
    return times(out_.columns(out_.rows(matmul.rhs(), 0, rowCount(matmul.rhs()->type)), kFrom, kTo));
  std::vector<Value*> parts;
  for (Value* piece : pieces->values) parts.push_back(times(out_.columns(piece, kFrom, kTo)));
  return out_.concat(std::move(parts), 1);
}

/// Splits a product by rows of its result, by the terms of its sums, or by both.
bool RowSplitter::product(const Op& op) {
  const as::matmul matmul(op);
  const bool ta = matmul.transpose_a(), tb = matmul.transpose_b();
  const Type &lhs = matmul.lhs()->type, &rhs = matmul.rhs()->type, &type = op.result()->type;
  // The right factor must be one matrix; the left one may have leading axes if it is not transposed.
  auto isMatrix = [](const Type& factor) {
    return factor.rank() > 1 && rowCount(factor) == factor.shape[factor.rank() - 2];
  };
  if (!isMatrix(rhs) || lhs.rank() < 2 || (ta && !isMatrix(lhs))) return false;
  const RowPieces *left = piecesOf(matmul.lhs()), *right = piecesOf(matmul.rhs());
  const bool large = type.bytes() > (ta || !readersTakeRows(*op.result()) ? binding_ : limit_);
  if (!left && !right && !large) return false;
  // m: the cuts of the result's rows. k: the cuts of the terms of its sums.
  const RowBounds m = left && !ta ? boundsLike(*left, type)
                      : large     ? boundsFor(op, ta ? binding_ : limit_)
                                  : RowBounds{0, rowCount(type)};
  const RowPieces* summed = finer(ta ? left : nullptr, tb ? nullptr : right);
  const RowBounds k = summed ? summed->bounds : RowBounds{0, ta ? rowCount(lhs) : lhs.shape.back()};
  if (m.size() < 3 && k.size() < 3 && !right) return false;
  RowPieces made{m, {}, !ta && (!left || left->streams) && m.size() > 2};
  const bool sumStreams = !made.streams && summed && summed->streams;
  for (size_t i = 0; i + 1 < m.size(); ++i) {
    Value* sum = nullptr;
    for (size_t j = 0; j + 1 < k.size(); ++j)
      sum = out_.inPiece(made.streams ? i : j, made.streams || sumStreams,
                         [&] { return added(sum, product(op, m[i], m[i + 1], k[j], k[j + 1])); });
    made.values.push_back(sum);
  }
  finish(op.result(), std::move(made), large);
  return true;
}

/// Ids minus a number. Ids below it become negative or, of u32, larger than any table has rows.
static Value* shifted(Builder& build, Value* ids, int64_t by) {
  if (by == 0) return ids;
  return build.binary(Opcode::sub, ids, build.scalar(static_cast<double>(by), ids->type.dtype));
}

/// Rows of a table by their ids. If the table is in pieces, each row is selected from the piece that has it.
Value* RowSplitter::rowsById(const Op& op, Value* ids) {
  const RowPieces* table = piecesOf(op.in(0));
  if (!table) return build().op(op.code, {op.in(0), ids}, op.attrs);
  Shape column = ids->type.shape;
  column.push(1);
  Value* found = nullptr;
  for (size_t i = table->values.size(); i-- > 0;) {
    Value* rows = build().op(op.code, {table->values[i], shifted(build(), ids, table->bounds[i])}, op.attrs);
    if (!found) {
      found = rows;
      continue;
    }
    Value* end = build().scalar(static_cast<double>(table->bounds[i + 1]), ids->type.dtype);
    Value* here = build().binary(Opcode::less, build().reshape(ids, column), end);
    found = build().op(Opcode::select, {here, rows, found});
  }
  return found;
}

bool RowSplitter::lookup(const Op& op) {
  Value* ids = as::embedding(op).ids();
  const Type& type = op.result()->type;
  const bool large = type.bytes() > binding_;
  if (op.in(0)->type.rank() != 2 || (!piecesOf(op.in(0)) && !large)) return false;
  RowPieces made{large ? boundsFor(op, binding_) : RowBounds{0, rowCount(type)}, {}, true};
  if (made.bounds.size() < 3) {
    replace(op.result(), rowsById(op, ids));
    return true;
  }
  for (size_t i = 0; i + 1 < made.bounds.size(); ++i)
    made.values.push_back(out_.inPiece(
        i, true, [&] { return rowsById(op, out_.ofRows(ids, made.bounds[i], made.bounds[i + 1])); }));
  finish(op.result(), std::move(made), true);
  return true;
}

/// The result is cut by the binding; updates in pieces are added up in the order of the pieces.
bool RowSplitter::scatter(const Op& op) {
  const as::scatter_add add(op);
  const Type& type = op.result()->type;
  const bool plain = op.numOperands() == 2 && add.pieces() == 1 && type.rank() == 2;
  const RowPieces* updates = piecesOf(add.updates());
  if (!plain || (type.bytes() <= binding_ && !updates)) return false;
  RowPieces made{boundsFor(op, binding_), {}, false};
  const RowBounds from = updates ? updates->bounds : RowBounds{0, add.ids()->type.elements()};
  for (size_t i = 0; i + 1 < made.bounds.size(); ++i) {
    Value* sum = nullptr;
    for (size_t j = 0; j + 1 < from.size(); ++j)
      sum = out_.inPiece(j, updates && updates->streams, [&] {
        Value* ids = updates ? out_.ofRows(add.ids(), from[j], from[j + 1]) : add.ids();
        ids = shifted(build(), ids, made.bounds[i]);
        build().setHint(op.result()->name);
        Value* rows = build().op(Opcode::scatter_add, {ids, updates ? updates->values[j] : add.updates()},
                                 {{"rows", Attr::of(made.bounds[i + 1] - made.bounds[i])}});
        build().setHint("");
        return added(sum, rows);
      });
    made.values.push_back(sum);
  }
  finish(op.result(), std::move(made), true);
  return true;
}

/// The operands of an op, with each piece as an operand of its own. Empty if no operand is in pieces.
std::vector<Value*> RowSplitter::operandsInPieces(const Op& op) const {
  std::vector<Value*> out;
  bool any = false;
  for (const Operand& operand : op.operands) {
    const RowPieces* pieces = piecesOf(operand.value);
    any = any || pieces;
    if (pieces)
      out.insert(out.end(), pieces->values.begin(), pieces->values.end());
    else
      out.push_back(operand.value);
  }
  return any ? out : std::vector<Value*>();
}

bool RowSplitter::squares(const Op& op) {
  const std::vector<Value*> parts = operandsInPieces(op);
  if (!parts.empty()) replace(op.result(), build().op(Opcode::sum_of_squares, parts));
  return !parts.empty();
}

/// Each piece becomes an operand of the same all_reduce, with a result of its own.
bool RowSplitter::reduceRanks(const Op& op) {
  const std::vector<Value*> sent = operandsInPieces(op);
  if (sent.empty()) return false;
  const Op* made = build().op(Opcode::all_reduce, sent, op.attrs)->def;
  int next = 0;
  for (int i = 0; i < op.numOperands(); ++i) {
    const RowPieces* pieces = piecesOf(op.in(i));
    if (!pieces) {
      replace(op.result(i), made->result(next++));
      continue;
    }
    RowPieces joined{pieces->bounds, {}, false};
    for (size_t piece = 0; piece < pieces->values.size(); ++piece) {
      joined.values.push_back(made->result(next++));
      joined.values.back()->name = build().names().unique(op.result(i)->name);
    }
    out_.set(op.result(i), std::move(joined));
  }
  return true;
}

/// Builds the pieces of an op. False: the op stays, and reads whole values.
bool RowSplitter::splits(const Op& op) { return byRowsOrTerms(op) || byEntries(op) || moves(op); }

bool RowSplitter::byRowsOrTerms(const Op& op) {
  switch (op.code) {
  case Opcode::param:
  case Opcode::state: return symbol(op);
  case Opcode::update: return update(op);
  case Opcode::matmul: return product(op);
  case Opcode::gather:
  case Opcode::embedding: return lookup(op);
  case Opcode::scatter_add: return scatter(op);
  case Opcode::sum_of_squares: return squares(op);
  case Opcode::all_reduce: return reduceRanks(op);
  case Opcode::reshape: return reshape(op);
  case Opcode::concat: return concat(op);
  case Opcode::cross_entropy:
  case Opcode::cross_entropy_grad: return crossEntropy(op);
  case Opcode::sum:
  case Opcode::mean:
  case Opcode::max_reduce:
  case Opcode::min_reduce:
  case Opcode::logsumexp: return reduction(op);
  case Opcode::softmax:
  case Opcode::softmax_grad:
  case Opcode::log_softmax:
  case Opcode::log_softmax_grad:
  case Opcode::layer_norm:
  case Opcode::layer_norm_grad:
  case Opcode::rms_norm:
  case Opcode::rms_norm_grad: return composite(op);
  default: return !op.results.empty() && elementwise(op);
  }
}

}  // namespace tg::fuse

tg::Result<void> tg::run_split_rows(Module& module, const SplitRowsOptions& options,
                                    const PassContext& context) {
  const bool aimed = find(module.attrs, "target") != nullptr;
  if (options.limit.empty() && !aimed)
    return failAt(module.loc,
                  "split-rows [split-rows.c1]: there is no limit; give limit=BYTES, or run set-target first");
  int64_t limit = kMaxBytes;
  if (!options.limit.empty()) {
    auto bytes = parseBytes(options.limit);
    if (!bytes) return failAt(module.loc, "split-rows [split-rows.c1]: limit: " + bytes.error().message());
    limit = *bytes;
  }
  int64_t binding = limit, alignment = 1;
  if (aimed) {
    TG_TRY(const Target target, fuse::targetOn(module, "split-rows"));
    binding = mostBytes(target);
    alignment = target.alignment;
  }
  limit = std::min(limit, binding);
  for (Item* func : module.all(ItemKind::func))
    fuse::RowSplitter(module, *func, limit, binding, alignment, context).run();
  return {};
}
