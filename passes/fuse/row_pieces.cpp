// SPDX-License-Identifier: Apache-2.0
#include "passes/fuse/row_pieces.h"

#include <algorithm>
#include <numeric>

#include "ir/access.h"
#include "ir/divide.h"
#include "passes/fuse/inline_ops.h"

namespace tg::fuse {

namespace {

/// Pieces start at multiples of these: the offsets at which every device binds a storage buffer (Vulkan's largest
/// minStorageBufferOffsetAlignment), and rows of a product's block where that many fit.
constexpr int64_t kPieceBytes = 256, kPieceRows = 64;
/// Most devices bind a storage buffer at these too.
constexpr int64_t kFineBytes = 16;
/// The largest value, in bytes, that may be computed ahead of its place in the text: a loss's scale, not a layer.
constexpr int64_t kAhead = 4096;

RowBounds cutAt(int64_t multiple, int64_t rows, int64_t rowBytes, int64_t limit) {
  const int64_t least = multiple / std::gcd(multiple, rowBytes);
  const int64_t unit = limit / rowBytes >= kPieceRows ? std::lcm(least, kPieceRows) : least;
  const int64_t most = limit / rowBytes / unit * unit;
  if (most == 0) return {};
  const int64_t count = divideCeil(rows, most);
  if (count > kMostRowPieces) return {};
  const int64_t step = alignTo(divideCeil(rows, count), unit);
  RowBounds bounds;
  for (int64_t at = 0; at < rows; at += step) bounds.push_back(at);
  bounds.push_back(rows);
  return bounds;
}

}  // namespace

RowBounds cutRows(int64_t rows, int64_t rowBytes, int64_t limit) {
  return cutAt(kPieceBytes, rows, rowBytes, limit);
}

RowBounds cutFinely(int64_t rows, int64_t rowBytes, int64_t limit, int64_t alignment) {
  RowBounds bounds = cutRows(rows, rowBytes, limit);
  return bounds.size() < 3 ? cutAt(std::max(kFineBytes, alignment), rows, rowBytes, limit) : bounds;
}

RowBounds cutAnywhere(int64_t rows, int64_t rowBytes, int64_t limit) {
  const int64_t most = limit / rowBytes;
  const int64_t count = most == 0 ? rows : divideCeil(rows, most);
  if (most == 0 || count > kMostRowPieces) return {};
  RowBounds bounds;
  for (int64_t i = 0; i <= count; ++i) bounds.push_back(i * rows / count);
  return bounds;
}

bool startAligned(const RowBounds& bounds, const Type& type) {
  const int64_t rowBytes = type.shape.back() * byteSize(type.dtype);
  return std::all_of(bounds.begin(), std::prev(bounds.end()),
                     [&](int64_t from) { return from * rowBytes % kPieceBytes == 0; });
}

std::optional<RowBounds> inEntries(RowBounds bounds, int64_t rows) {
  for (int64_t& bound : bounds) {
    if (bound % rows != 0) return {};
    bound /= rows;
  }
  return bounds;
}

int64_t mostRows(const RowBounds& bounds) {
  int64_t most = 0;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) most = std::max(most, bounds[i + 1] - bounds[i]);
  return most;
}

const RowPieces* PieceBuilder::piecesOf(const Value* value) const { return valueIn(pieces_, value); }

Value* PieceBuilder::concat(std::vector<Value*> parts, int64_t axis) {
  const DType dtype = parts[0]->type.dtype;
  for (Value*& part : parts)
    if (isNarrow(dtype)) part = build_.cast(part, computeType(dtype));
  Value* all = build_.op(Opcode::concat, parts, {{"axis", Attr::of(axis)}});
  return isNarrow(dtype) ? build_.cast(all, dtype) : all;
}

Value* PieceBuilder::join(const std::vector<Value*>& values, const Type& type) {
  return build_.reshape(values.size() == 1 ? values[0] : concat(values, 0), type.shape);
}

Value* PieceBuilder::whole(Value* value) {
  const RowPieces* pieces = piecesOf(value);
  if (!pieces) return value;
  Value*& joined = wholes_[value];
  if (joined) return joined;
  joined = join(pieces->values, value->type);
  if (!adjoined_.contains(value))  // an argument keeps its name
    joined->name = value->def ? value->name : build_.names().unique(value->name);
  return joined;
}

Value* PieceBuilder::forHost(Value* value) {
  // A tg.adjoin needs pieces that start where kernels can bind them.
  const RowPieces& pieces = *piecesOf(value);
  if (!aimed_ || !startAligned(pieces.bounds, value->type) || wholes_.contains(value)) return whole(value);
  Value*& adjoined = adjoined_[value];
  if (adjoined) return adjoined;
  adjoined = build_.op(Opcode::adjoin, pieces.values, {}, {value->type});
  if (value->def) adjoined->name = value->name;
  return adjoined;
}

Value* PieceBuilder::columns(Value* matrix, int64_t from, int64_t to) {
  return build_.part(matrix, 1, from, to);
}

Value* PieceBuilder::rows(Value* value, int64_t from, int64_t to) {
  const int64_t count = rowCount(value->type), width = value->type.shape.back();
  if (const RowPieces* pieces = piecesOf(value)) {
    std::vector<Value*> parts;
    for (size_t i = 0; i < pieces->values.size(); ++i) {
      const int64_t start = pieces->bounds[i], end = pieces->bounds[i + 1];
      if (end <= from || to <= start) continue;
      parts.push_back(
          build_.part(pieces->values[i], 0, std::max(from, start) - start, std::min(to, end) - start));
    }
    return join(parts, Type::tensor(value->type.dtype, {to - from, width}));
  }
  const Op* def = value->def;
  if (def && def->code == Opcode::constant && def->operands[0].isLiteral())
    return build_
        .create(Opcode::constant, def->operands, {}, {Type::tensor(value->type.dtype, {to - from, width})})
        ->result();
  return build_.part(build_.reshape(value, {count, width}), 0, from, to);
}

Value* PieceBuilder::ofRows(Value* value, int64_t from, int64_t to) {
  const int64_t width = value->type.rank() == 0 ? 1 : value->type.shape.back();
  if (piecesOf(value) && from % width == 0 && to % width == 0)
    return build_.reshape(rows(value, from / width, to / width), {to - from});
  value = whole(value);
  return build_.part(build_.reshape(value, {value->type.elements()}), 0, from, to);
}

Value* PieceBuilder::inPiece(size_t piece, bool streams, const std::function<Value*()>& make) {
  Op* before = made_.back();
  Value* value = make();
  for (Op* op = before ? before->next() : made_.front(); streams && op; op = op->next())
    pieceOf_.emplace(op, piece);
  return value;
}

OpList PieceBuilder::apart(const std::function<void()>& make) {
  OpList ops;
  build_.setEnd(ops);
  make();
  build_.setEnd(made_);
  return ops;
}

void PieceBuilder::keep(std::unique_ptr<Op> op) {
  build_.setLoc(op->loc);
  forEachUse(*op, [&](Value*& value) {
    if (piecesOf(value)) value = hostReads(*op) ? forHost(value) : whole(value);
  });
  made_.push_back(std::move(op));
}

/// Whether a value can be read now, after the ops that are added to `missing`: views, and small values.
bool PieceBuilder::isThere(const Value& value, std::vector<Op*>& missing) const {
  Op* def = value.def;
  if (!def || def->list() != &made_ || contains(missing, def)) return true;
  if (pieceOf_.contains(def) || isBoundary(*def)) {
    if (!readsEntry(*def)) return false;
  } else if (!isInline(*def) && value.type.bytes() > kAhead) {
    return false;
  }
  const bool there = everyUse(*def, [&](const Value* operand) { return isThere(*operand, missing); });
  if (there) missing.push_back(def);
  return there;
}

/// Moves an op to the end of `out`, after the ops that it still needs. False if those may not be computed ahead.
bool PieceBuilder::take(Op* op, OpList& out) {
  std::vector<Op*> missing;
  if (!everyUse(*op, [&](const Value* value) { return isThere(*value, missing); })) return false;
  for (Op* each : missing) out.push_back(made_.take(each));
  out.push_back(made_.take(op));
  return true;
}

OpList PieceBuilder::finish() {
  OpList out;
  std::vector<std::vector<Op*>> chains;  // for each piece, its remaining ops in order
  for (Op* op : made_)
    if (auto at = pieceOf_.find(op); at != pieceOf_.end()) {
      chains.resize(std::max(chains.size(), at->second + 1));
      chains[at->second].push_back(op);
    }
  while (!made_.empty()) {
    if (!pieceOf_.contains(made_.front())) {
      out.push_back(made_.takeFront());
      continue;
    }
    for (std::vector<Op*>& chain : chains)
      std::erase_if(chain, [&](Op* op) { return op->list() != &made_ || take(op, out); });
  }
  return out;
}

}  // namespace tg::fuse
