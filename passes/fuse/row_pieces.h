// SPDX-License-Identifier: Apache-2.0
// Values of a function that stand as pieces by rows, for split-rows. A row is what lies along the last axis: a
// value of shape BxTxC has B·T rows of C, and its pieces are tensors of rank 2.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"

namespace tg::fuse {

/// Where rows are cut: 0, …, all of them, ascending.
using RowBounds = std::vector<int64_t>;

/// The rows of a type of rank 1 or more.
inline int64_t rowCount(const Type& type) { return type.elements() / type.shape.back(); }

/// Cuts rows into as few pieces of nearly equal size as have at most `limit` bytes each. Pieces start at
/// multiples of 256 bytes, which every device binds, and of 64 rows where so many fit. Empty: no row fits, or there
/// would be more than 256 pieces.
RowBounds cutRows(int64_t rows, int64_t rowBytes, int64_t limit);

struct RowPieces {
  RowBounds bounds;
  std::vector<Value*> values;  ///< one for each two neighbours of `bounds`
  /// Whether what is computed of one piece should be computed before the next piece is: they are never alive
  /// together. Pieces of parameters and of their gradients are.
  bool streams = false;
};

/// Builds the new body of a function, in which some values are pieces.
class PieceBuilder {
 public:
  PieceBuilder(Module& module, Item& func)
      : build_(&module, &func), aimed_(find(module.attrs, "target") != nullptr) {
    build_.setEnd(made_);
  }

  Builder& build() { return build_; }
  /// The pieces of a value of the old body; null where it stands whole.
  const RowPieces* piecesOf(const Value* value) const;
  /// From now on a value of the old body is these pieces.
  void set(const Value* value, RowPieces pieces) { pieces_[value] = std::move(pieces); }
  /// A value of the old body as one: its pieces joined, the first time by a tg.concat here.
  Value* whole(Value* value);
  /// The same for the host, by tg.adjoin: no kernel binds it.
  Value* forHost(Value* value);
  /// A tg.concat, of f16 and bf16 in f32 between casts as compute-in-f32 has it, which loses nothing.
  Value* concat(std::vector<Value*> parts, int64_t axis);
  /// Pieces joined to a value of this type.
  Value* join(const std::vector<Value*>& values, const Type& type);

  /// Rows [from, to) of a value as a tensor of rank 2, and columns of such a tensor.
  Value* rows(Value* value, int64_t from, int64_t to);
  Value* columns(Value* matrix, int64_t from, int64_t to);
  /// Elements [from, to) of a value with one element for each row.
  Value* ofRows(Value* value, int64_t from, int64_t to);

  /// What `make` builds belongs to a piece, where that `streams`.
  Value* inPiece(size_t piece, bool streams, const std::function<Value*()>& make);
  /// Puts an op at the end that stays as it is, but reads wholes.
  void keep(std::unique_ptr<Op> op);
  /// The new body. Ops of one piece follow one another as far as what they read is there.
  OpList finish();

 private:
  bool isThere(const Value& value, std::vector<Op*>& missing) const;
  bool take(Op* op, OpList& out);

  OpList made_;
  Builder build_;
  bool aimed_;  ///< at a target: its functions may hold ops of stage fused
  std::unordered_map<const Value*, RowPieces> pieces_;
  std::unordered_map<const Value*, Value*> wholes_, adjoined_;
  std::unordered_map<const Op*, size_t> pieceOf_;
};

}  // namespace tg::fuse
