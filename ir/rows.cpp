// SPDX-License-Identifier: Apache-2.0
#include "ir/rows.h"

#include <algorithm>
#include <vector>

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {

std::optional<RowSpace> rowSpaceOf(const Op& op) {
  using table::Fusion;
  Fusion fusion = op.info().fusion;
  if (fusion != Fusion::reduce && fusion != Fusion::row) return std::nullopt;
  const Shape& shape = op.in(0)->type.shape;
  int rank = shape.rank();
  if (rank == 0) return std::nullopt;
  int first = rank - 1;  // the reduced axes are first..rank-1
  std::vector<int> axes;
  if (op.info().attr("axis")) axes.push_back(normalAxis(as::softmax(op).axis(), rank));
  if (op.info().attr("axes")) {
    const std::vector<int64_t> reduced = reducedAxes(op);
    if (reduced.empty()) return std::nullopt;
    axes.assign(reduced.begin(), reduced.end());
  }
  if (!axes.empty()) {
    first = axes[0];
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != first + static_cast<int>(i)) return std::nullopt;
    // Axes of extent 1 may follow the reduced ones.
    for (int axis = first + static_cast<int>(axes.size()); axis < rank; ++axis)
      if (shape[axis] != 1) return std::nullopt;
  }
  RowSpace space{1, 1};
  for (int axis = 0; axis < rank; ++axis) (axis < first ? space.rows : space.length) *= shape[axis];
  return space;
}

std::optional<RowSpace> rowSpaceOf(const OpList& ops) {
  for (const Op* op : ops)
    if (auto rows = rowSpaceOf(*op)) return rows;
  return std::nullopt;
}

int64_t rowsPerSum(const Op& op, const RowSpace& rows) {
  if (op.code != Opcode::sum) return 0;
  const Shape& shape = op.in(0)->type.shape;
  const int axis = shape.rank() - 2;
  const std::vector<int64_t> axes = as::sum(op).axes();
  if (axis < 0 || axes.size() != 1 || normalAxis(axes[0], shape.rank()) != axis) return 0;
  const bool same = shape.back() == rows.length && shape.elements() == rows.rows * rows.length;
  return same && rows.length > 1 ? shape[axis] : 0;
}

int64_t rowsPerSum(const OpList& ops, const RowSpace& rows) {
  for (const Op* op : ops)
    if (const int64_t each = rowsPerSum(*op, rows)) return each;
  return 0;
}

}  // namespace tg
