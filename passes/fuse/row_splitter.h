// SPDX-License-Identifier: Apache-2.0
// The pass split-rows, in four files: products, tables and symbols (split_rows.cpp), ops along rows (split_along_rows.cpp),
// other ops entry by entry of the first axis (split_entries.cpp), and views that move entries (split_views.cpp).
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "passes/fuse/row_pieces.h"
#include "passes/pass.h"

namespace tg::fuse {

/// The axis of a value's entries, such as the images of a batch: the first that has several. Those in front of it change
/// nothing in memory.
inline int entryAxis(const Shape& shape) {
  int axis = 0;
  while (axis + 1 < shape.rank() && shape[axis] == 1) ++axis;
  return axis;
}
inline int64_t entryCount(const Type& type) {
  return type.rank() == 0 ? 1 : type.shape[entryAxis(type.shape)];
}

/// Whether the entries of a value are whole rows, or the elements of a vector. Elements of one row are no pieces.
inline bool hasWholeRows(const Type& type) {
  return type.rank() < 2 || entryAxis(type.shape) < type.rank() - 1;
}

/// How an op treats entries.
struct Entries {
  int64_t count = 0;
  std::vector<bool> cut;  ///< for each operand: whether it has the axis; the others are read whole
  /// Whether the results are sums over the entries; otherwise entry i of each result follows from entries i of the operands.
  bool sums = false;
};

/// How an op can be computed entry by entry; nothing if it cannot, or is not known to.
std::optional<Entries> entriesOf(const Op& op);

/// A range of indices along each axis.
struct Box {
  std::vector<int64_t> from, to;
};

/// How a value is cut into boxes whose rows follow one another: one index of each axis in front of `axis`, and a range of
/// that axis.
struct BoxCut {
  int axis = 0;
  RowBounds bounds;  ///< of the ranges
};

/// Of two values in pieces, each of which may be null, the one with more pieces.
inline const RowPieces* finer(const RowPieces* a, const RowPieces* b) {
  return !a || (b && b->values.size() > a->values.size()) ? b : a;
}

class RowSplitter {
 public:
  RowSplitter(Module& module, Item& func, int64_t limit, int64_t binding, int64_t alignment,
              const PassContext& context)
      : func_(func), limit_(limit), binding_(binding), alignment_(alignment), context_(context),
        out_(module, func) {}

  void run() {
    OpList old = func_.body.ops.takeAll();
    for (const auto& argument : func_.body.args) cut(*argument);
    takeAll(std::move(old));
    func_.body.ops = out_.finish();
    split_.clear();
  }

 private:
  /// Splits or keeps each of these ops.
  void takeAll(OpList ops) {
    while (!ops.empty()) {
      std::unique_ptr<Op> op = ops.takeFront();
      out_.build().setLoc(op->loc).setHint("");
      if (splits(*op))
        split_.push_back(std::move(op));
      else
        out_.keep(std::move(op));
    }
  }
  void cut(Value& argument);
  bool splits(const Op& op);
  bool byRowsOrTerms(const Op& op);
  RowBounds symbolBounds(const Type& type) const;
  bool symbol(const Op& op);
  bool update(const Op& op);
  bool product(const Op& op);
  bool lookup(const Op& op);
  Value* rowsById(const Op& op, Value* ids);
  bool scatter(const Op& op);
  std::vector<Value*> operandsInPieces(const Op& op) const;
  bool squares(const Op& op);
  bool reduceRanks(const Op& op);
  bool reshape(const Op& op);
  bool concat(const Op& op);
  bool byEntries(const Op& op);
  Value* entries(Value* value, int64_t from, int64_t to);
  std::vector<RowPieces> pieceResults(const Op& op, const Entries& how, const RowBounds& bounds,
                                      bool streams);
  Value* addedEntries(const Op& op, const RowBounds& bounds, bool streams);
  std::optional<RowBounds> entryBounds(const Op& op, const Entries& how, const RowPieces* pieces) const;
  bool elementwise(const Op& op);
  bool composite(const Op& op);
  bool crossEntropy(const Op& op);
  bool reduction(const Op& op);
  bool moves(const Op& op);
  bool view(const Op& op);
  Value* viewOf(const Op& op, const Box& box);
  Value* padded(const Op& op, Box box);
  std::optional<BoxCut> boxCut(const Type& type, int64_t read = 1) const;
  std::optional<BoxCut> boxCut(const Value& value, const RowPieces& pieces) const;
  Value* boxOf(Value* x, const Box& box);
  Value* boxOf(Value* x, const BoxCut& cut, const Box& box, int axis, int64_t row);
  bool alongEntries(const Op& op);

  Builder& build() { return out_.build(); }
  const RowPieces* piecesOf(const Value* value) const { return out_.piecesOf(value); }
  RowBounds boundsFor(const Value& value, int64_t limit);
  RowBounds boundsFor(const Op& op, int64_t limit) { return boundsFor(*op.result(), limit); }
  RowBounds boundsLike(const RowPieces& pieces, const Type& type) const;
  Value* operandRows(Value* value, const Shape& shape, int64_t from, int64_t to);
  bool hasRows(const Value* value, const Shape& shape) const;
  bool byRows(const Op& op, int lead, const RowBounds& bounds, bool streams);
  Value* clone(const Op& op, const std::vector<Value*>& operands, AttrList attrs);
  static Opcode joining(Opcode reduction);
  Value* meanOf(const Op& mean, Value* sum);
  Value* product(const Op& op, int64_t mFrom, int64_t mTo, int64_t kFrom, int64_t kTo);
  void replace(Value* result, Value* value);
  void finish(Value* result, RowPieces pieces, bool stays);
  Value* added(Value* sum, Value* term, Opcode code = Opcode::add) {
    return sum ? build().binary(code, sum, term) : term;
  }

  Item& func_;
  int64_t limit_;      ///< most bytes of an intermediate value
  int64_t binding_;    ///< most bytes of arguments, parameters, states and their gradients
  int64_t alignment_;  ///< of what a kernel binds, in bytes
  const PassContext& context_;
  PieceBuilder out_;
  std::vector<std::unique_ptr<Op>>
      split_;  ///< replaced ops, kept because their results are keys until the end
};

}  // namespace tg::fuse
