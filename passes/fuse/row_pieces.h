// SPDX-License-Identifier: Apache-2.0
// Values of a function that exist as pieces by rows; a part of split-rows. A row is what lies along the last axis: a
// value of shape BxTxC has B·T rows of C elements. Pieces are tensors of rank 2.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg::fuse {

/// The rows at which a value is cut, ascending: 0, …, the number of rows.
using RowBounds = std::vector<int64_t>;

/// The number of rows of a type of rank 1 or more.
inline int64_t rowCount(const Type& type) { return type.elements() / type.shape.back(); }

/// Most pieces of a tensor, chosen: 32 GiB where a binding spans 128 MiB. The time of passes grows with its square; 256
/// take a second or two.
constexpr int64_t kMostRowPieces = 256;

/// Cuts rows into the fewest pieces of nearly equal size with at most `limit` bytes each. Pieces start at multiples of 256
/// bytes, where every device can bind them, and of 64 rows if that many fit. Empty if not even the smallest such piece
/// fits, or if there would be more than kMostRowPieces.
RowBounds cutRows(int64_t rows, int64_t rowBytes, int64_t limit);
/// The same; but if so few rows fit that none of them starts at such a multiple, pieces start at multiples of 16 bytes, or
/// of `alignment` bytes, a power of two, if that is more.
RowBounds cutFinely(int64_t rows, int64_t rowBytes, int64_t limit, int64_t alignment = 1);
/// The same with pieces that start anywhere: the host reads a value of such pieces joined.
RowBounds cutAnywhere(int64_t rows, int64_t rowBytes, int64_t limit);
/// Whether pieces of a value of this type with these bounds start at such multiples. Those that cutRows gave for another
/// element type may not.
bool startAligned(const RowBounds& bounds, const Type& type);

/// The bounds counted in entries of `rows` rows each. Nothing if one of them lies within an entry.
std::optional<RowBounds> inEntries(RowBounds bounds, int64_t rows);
/// The rows of the largest piece.
int64_t mostRows(const RowBounds& bounds);

struct RowPieces {
  RowBounds bounds;
  std::vector<Value*> values;  ///< one for each two neighbours of `bounds`
  /// Whether all that is computed from one piece should be computed before the next piece is, so that the pieces are never
  /// alive together. False for pieces of parameters and of their gradients, which are alive together anyway.
  bool streams = false;
};

/// Builds the new body of a function, in which some values of the old body are pieces.
class PieceBuilder {
 public:
  PieceBuilder(Module& module, Item& func)
      : build_(&module, &func), aimed_(find(module.attrs, "target") != nullptr) {
    build_.setEnd(made_);
  }

  Builder& build() { return build_; }
  /// Whether the function is at a target, so that it may hold ops of stage fused.
  bool aimed() const { return aimed_; }
  /// The pieces of a value of the old body; null if it is not in pieces.
  const RowPieces* piecesOf(const Value* value) const;
  /// Declares that a value of the old body is these pieces from now on.
  void set(const Value* value, RowPieces pieces) { pieces_[value] = std::move(pieces); }
  /// A value of the old body as a whole. The first call for a value in pieces joins them by a tg.concat here.
  Value* whole(Value* value);
  /// The same for the host, by a tg.adjoin, which no kernel binds.
  Value* forHost(Value* value);
  /// A tg.concat. f16 and bf16 are joined in f32 between casts, as compute-in-f32 would do it; that loses nothing.
  Value* concat(std::vector<Value*> parts, int64_t axis);
  /// Pieces joined to a value of this type.
  Value* join(const std::vector<Value*>& values, const Type& type);

  /// Rows [from, to) of a value as a tensor of rank 2, and columns of such a tensor.
  Value* rows(Value* value, int64_t from, int64_t to);
  Value* columns(Value* matrix, int64_t from, int64_t to);
  /// Elements [from, to) of a value that has one element for each row.
  Value* ofRows(Value* value, int64_t from, int64_t to);

  /// Calls `make`; if `streams`, the ops that it builds belong to this piece.
  Value* inPiece(size_t piece, bool streams, const std::function<Value*()>& make);
  /// The ops that `make` builds, as ops of the old body.
  OpList apart(const std::function<void()>& make);
  /// Appends an op unchanged, except that it reads whole values instead of pieces.
  void keep(std::unique_ptr<Op> op);
  /// Returns the new body. Ops of one piece follow one another as far as their operands are already defined.
  OpList finish();

 private:
  bool isThere(const Value& value, std::vector<Op*>& missing) const;
  bool take(Op* op, OpList& out);

  OpList made_;
  Builder build_;
  bool aimed_;
  std::unordered_map<const Value*, RowPieces> pieces_;
  std::unordered_map<const Value*, Value*> wholes_, adjoined_;
  std::unordered_map<const Op*, size_t> pieceOf_;
};

}  // namespace tg::fuse
