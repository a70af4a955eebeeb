// SPDX-License-Identifier: Apache-2.0
#include "ir/rows.h"

#include <algorithm>
#include <vector>

#include "ir/infer.h"
#include "ir/op_view.h"

namespace tg {

/// The axes of an op's attribute `axis` or `axes`, counted from the front; for a fold, also the last one, of its windows.
static std::vector<int64_t> axesAlong(const Op& op) {
  if (op.info().attr("axes")) return reducedAxes(op);
  const int rank = op.in(0)->type.rank(), axis = normalAxis(op.intAttr("axis"), rank);
  return op.code == Opcode::fold ? std::vector<int64_t>{axis, rank - 1} : std::vector<int64_t>{axis};
}

std::optional<RowSpace> rowSpaceOf(const Op& op) {
  using table::Fusion;
  Fusion fusion = op.info().fusion;
  if (fusion != Fusion::reduce && fusion != Fusion::row) return std::nullopt;
  const Shape& shape = op.in(0)->type.shape;
  int rank = shape.rank();
  if (rank == 0) return std::nullopt;
  int first = rank - 1;  // the reduced axes are first..rank-1
  if (op.info().has(table::alongAxes)) {
    const std::vector<int64_t> axes = axesAlong(op);
    if (axes.empty()) return std::nullopt;
    first = static_cast<int>(axes[0]);
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != first + static_cast<int64_t>(i)) return std::nullopt;
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

bool keepsApart(const Op& op, int axis) {
  const OpInfo& info = op.info();
  const auto behind = [&] { return op.in(0)->type.rank() - 1 - axis; };  // of an op that has a tensor operand
  const auto at = static_cast<size_t>(axis);
  // A causal mask hides columns by the number of the row.
  if (info.attr("causal") && op.flag("causal") && behind() < 2) return false;
  if (info.has(table::alongAxes)) return !contains(axesAlong(op), axis);
  if (info.has(table::alongRow)) return behind() > 0;
  if (info.has(table::alongMatrix)) return behind() > 1;
  if (info.has(table::alongImage)) return axis == 0;
  if (op.code == Opcode::slice) {
    const as::slice slice(op);
    return slice.starts()[at] == 0 && slice.limits()[at] == op.in(0)->type.shape[axis] &&
           (slice.strides().empty() || slice.strides()[at] == 1);
  }
  if (op.code != Opcode::pad) return false;
  const as::pad pad(op);
  return pad.low()[at] == 0 && pad.high()[at] == 0 && (pad.interior().empty() || pad.interior()[at] == 0);
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
