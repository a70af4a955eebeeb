// SPDX-License-Identifier: Apache-2.0
// Kernels are lowered with matrices of 16x16. NVIDIA's and AMD's GPUs multiply 16x16x16, Intel's 8x16x16, Mesa's CPU
// device 8x8x8. Where the target lacks the kernel's shape, each matrix is replaced by a row-major grid of smaller ones,
// its parts, and each op on a matrix by the same op on each part:
//
//   %c = tgk.coopmat_mma %a, %b, %s        for each part (i, j) of the sum, in the order of k:
//                                            %c_ij = %s_ij;  %c_ij = tgk.coopmat_mma %a_ik, %b_kj, %c_ij
//   tgk.coopmat_load %s[row, column]       for each part (i, j): tgk.coopmat_load %s[row + 8·i, column + 8·j]
//
// Loops carry the parts, and ifs yield them. The ops on whole matrices are erased at the end.
#include "codegen/lower.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel/inline.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/semantics.h"
#include "ir/needs.h"

namespace tg {
namespace {

/// The parts of a matrix, row by row.
struct Parts {
  int64_t rows = 1, columns = 1;
  std::vector<Value*> values;
  Value* at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * columns + column)]; }
};

class MatrixSplitter {
 public:
  MatrixSplitter(Item& kernel, const CoopShape& shape) : shape_(shape), build_(kernel.body) {}

  void run(Block& body) {
    split(body);
    for (const auto& [op, gone] : carriers_) removeCarried(*op, gone);
    for (auto op = replaced_.rbegin(); op != replaced_.rend(); ++op) (*op)->list()->erase(*op);
  }

 private:
  void split(Block& block);
  void splitOp(Op& op);
  void splitPlace(const Op& op);
  void splitProduct(const Op& op);
  void splitAlongAxis(const Op& op);
  void splitRowReduce(const Op& op);
  void splitAnyAbove(Op& op);
  void splitLanes(const Op& op);
  void splitResults(Op& op);
  void splitYield(Op& yield);

  Type partOf(const Type& whole) const;
  Parts gridOf(const Type& whole) const;
  Value* make(const Op& op, OperandList operands, const Type& type);
  Operand shifted(const Operand& index, int64_t by);
  std::vector<Operand> shiftedAll(const Operand& index, int64_t count, int64_t by);

  const CoopShape& shape_;
  Builder build_;
  std::unordered_map<const Value*, Parts> parts_;
  std::vector<Op*> replaced_;  ///< ops on whole matrices
  std::vector<std::pair<Op*, std::vector<bool>>>
      carriers_;  ///< loops and ifs, and which results are whole matrices
};

Type MatrixSplitter::partOf(const Type& whole) const {
  const int64_t rows = whole.use == MatrixUse::b ? shape_.k : shape_.m;
  const int64_t columns = whole.use == MatrixUse::a ? shape_.k : shape_.n;
  return Type::coopmat(whole.dtype, rows, columns, whole.use);
}

/// The grid of a matrix's parts, without their values.
Parts MatrixSplitter::gridOf(const Type& whole) const {
  const Type part = partOf(whole);
  return {whole.shape[0] / part.shape[0], whole.shape[1] / part.shape[1], {}};
}

/// Creates an op like this one whose result is a part.
Value* MatrixSplitter::make(const Op& op, OperandList operands, const Type& type) {
  build_.setHint(op.result()->name);
  return build_.create(op.code, std::move(operands), op.attrs, {type})->result();
}

Operand MatrixSplitter::shifted(const Operand& index, int64_t by) {
  if (by == 0) return index;
  if (index.isLiteral()) return Operand::literal(index.integer + by);
  const Op* sum = build_.setHint("at").create(Opcode::k_add, {index, Operand::literal(by)});
  return Operand::of(sum->result());
}

/// The index plus 0, `by`, 2·`by`, …
std::vector<Operand> MatrixSplitter::shiftedAll(const Operand& index, int64_t count, int64_t by) {
  std::vector<Operand> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(shifted(index, i * by));
  return out;
}

/// Splits a load or store. A matrix's rows run along the buffer's first axis, or along its second if the matrix is
/// column-major. The second axis counts the buffer's elements, which may hold several scalars each.
void MatrixSplitter::splitPlace(const Op& op) {
  const bool loads = op.code == Opcode::k_coopmat_load, turned = loads && op.flag("column_major");
  const Type whole = loads ? op.result()->type : op.in(0)->type, part = partOf(whole);
  const Operand element = op.operands.back();
  const int64_t scalars = matrixScalars(element.value->type, whole);
  Parts grid = gridOf(whole);
  const std::vector<Operand> rows = shiftedAll(element.items[turned ? 1 : 0], grid.rows,
                                               part.shape[0] / (turned ? scalars : 1)),
                             columns = shiftedAll(element.items[turned ? 0 : 1], grid.columns,
                                                  part.shape[1] / (turned ? 1 : scalars));
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t column = 0; column < columns.size(); ++column) {
      const Operand place = turned ? Operand::element(element.value, {columns[column], rows[row]})
                                   : Operand::element(element.value, {rows[row], columns[column]});
      if (loads)
        grid.values.push_back(make(op, {place}, part));
      else
        build_.create(op.code,
                      {Operand::of(parts_.at(op.in(0)).values[row * columns.size() + column]), place},
                      op.attrs);
    }
  if (loads) parts_[op.result()] = std::move(grid);
}

/// Splits a product: each part of the result sums over the parts along k, in order.
void MatrixSplitter::splitProduct(const Op& op) {
  const Parts &a = parts_.at(op.in(0)), &b = parts_.at(op.in(1)), &c = parts_.at(op.in(2));
  Parts out{c.rows, c.columns, c.values};
  for (int64_t row = 0; row < out.rows; ++row)
    for (int64_t column = 0; column < out.columns; ++column) {
      Value*& sum = out.values[static_cast<size_t>(row * out.columns + column)];
      for (int64_t k = 0; k < a.columns; ++k)
        sum =
            make(op, {Operand::of(a.at(row, k)), Operand::of(b.at(k, column)), Operand::of(sum)}, sum->type);
    }
  parts_[op.result()] = std::move(out);
}

/// Splits an accumulator whose elements depend on the row or the column alone: its index, or a buffer's elements.
void MatrixSplitter::splitAlongAxis(const Op& op) {
  const Type part = partOf(op.result()->type);
  const bool columns = op.flag("columns");
  Parts grid = gridOf(op.result()->type);
  const int64_t count = columns ? grid.columns : grid.rows, by = part.shape[columns ? 1 : 0];
  std::vector<Value*> each;
  for (int64_t i = 0; i < count; ++i) {
    if (op.code == Opcode::k_coopmat_repeat) {
      const Operand& element = op.operands[0];
      each.push_back(make(op, {Operand::element(element.value, {shifted(element.items[0], i * by)})}, part));
    } else {
      Value* numbers = make(op, {}, part);
      const Operand from = Operand::literal(static_cast<double>(i * by));
      each.push_back(i == 0 ? numbers : build_.create(Opcode::k_add, {Operand::of(numbers), from})->result());
    }
  }
  for (int64_t row = 0; row < grid.rows; ++row)
    for (int64_t column = 0; column < grid.columns; ++column)
      grid.values.push_back(each[static_cast<size_t>(columns ? column : row)]);
  parts_[op.result()] = std::move(grid);
}

/// A row of parts is reduced by one op; its result has the reduced values in every column.
void MatrixSplitter::splitRowReduce(const Op& op) {
  Parts grid = gridOf(op.result()->type);
  for (int64_t row = 0; row < grid.rows; ++row) {
    OperandList parts;
    for (int i = 0; i < op.numOperands(); ++i)
      for (int64_t column = 0; column < grid.columns; ++column)
        parts.push_back(Operand::of(parts_.at(op.in(i)).at(row, column)));
    Value* all = make(op, std::move(parts), partOf(op.result()->type));
    grid.values.insert(grid.values.end(), static_cast<size_t>(grid.columns), all);
  }
  parts_[op.result()] = std::move(grid);
}

/// Splits an elementwise op: part by part. Scalar operands are the same for all parts.
void MatrixSplitter::splitLanes(const Op& op) {
  Parts grid = gridOf(op.result()->type);
  for (int64_t i = 0; i < grid.rows * grid.columns; ++i) {
    OperandList operands = op.operands;
    for (Operand& operand : operands)
      if (auto it = parts_.find(operand.value); it != parts_.end())
        operand = Operand::of(it->second.values[static_cast<size_t>(i)]);
    grid.values.push_back(make(op, std::move(operands), partOf(op.result()->type)));
  }
  parts_[op.result()] = std::move(grid);
}

/// The op looks through the parts of all its matrices.
void MatrixSplitter::splitAnyAbove(Op& op) {
  OperandList operands{op.operands[0]};
  for (int i = 1; i < op.numOperands(); ++i)
    for (Value* part : parts_.at(op.in(i)).values) operands.push_back(Operand::of(part));
  op.operands = std::move(operands);
}

void MatrixSplitter::splitOp(Op& op) {
  build_.setBefore(&op).setLoc(op.loc);
  switch (op.code) {
  case Opcode::k_coopmat_load:
  case Opcode::k_coopmat_store: splitPlace(op); break;
  case Opcode::k_coopmat_mma: splitProduct(op); break;
  case Opcode::k_coopmat_index:
  case Opcode::k_coopmat_repeat: splitAlongAxis(op); break;
  case Opcode::k_coopmat_row_reduce: splitRowReduce(op); break;
  case Opcode::k_coopmat_any_above: return splitAnyAbove(op);
  default: splitLanes(op);
  }
  replaced_.push_back(&op);
}

/// Adds results for the parts of a loop's or branch's matrices, and carried values for a loop's.
void MatrixSplitter::splitResults(Op& op) {
  std::vector<bool> gone;
  for (const auto& result : op.results) gone.push_back(result->type.isCoopmat());
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) continue;
    const Type whole = op.result(static_cast<int>(i))->type;
    Parts inside = gridOf(whole), outside = gridOf(whole);
    const std::string name = op.result(static_cast<int>(i))->name;
    for (int64_t part = 0; part < inside.rows * inside.columns; ++part) {
      outside.values.push_back(op.addResult(partOf(whole), build_.names().unique(name)));
      if (op.code != Opcode::k_for) continue;
      Operand& carried = *op.keyword("iter_args");
      const Value* first = carried.items[i].items[0].value;
      Value* arg = op.regions[0]->addArg(partOf(whole), build_.names().unique(carried.items[i].value->name));
      inside.values.push_back(arg);
      carried.items.push_back(
          Operand::binding(arg, Operand::of(parts_.at(first).values[static_cast<size_t>(part)])));
    }
    if (op.code == Opcode::k_for) parts_[op.keyword("iter_args")->items[i].value] = std::move(inside);
    parts_[op.result(static_cast<int>(i))] = std::move(outside);
  }
  const size_t whole = gone.size();
  gone.resize(op.results.size());
  if (op.results.size() > whole) carriers_.emplace_back(&op, std::move(gone));
}

/// A yield yields the parts, behind its other operands.
void MatrixSplitter::splitYield(Op& yield) {
  const size_t count = yield.operands.size();
  for (size_t i = 0; i < count; ++i)
    if (auto it = parts_.find(yield.operands[i].value); it != parts_.end())
      for (Value* part : it->second.values) yield.operands.push_back(Operand::of(part));
}

bool onMatrices(const Op& op) {
  return isCoopmatOp(op.code) || (!op.results.empty() && op.regions.empty() && op.result()->type.isCoopmat());
}

void MatrixSplitter::split(Block& block) {
  for (Op *op = block.ops.front(), *next = nullptr; op; op = next) {
    next = op->next();
    if (op->code == Opcode::k_yield) splitYield(*op);
    if (!op->regions.empty()) splitResults(*op);
    for (auto& region : op->regions) split(*region);
    if (onMatrices(*op)) splitOp(*op);
  }
}

}  // namespace

void splitMatrices(Item& kernel, const Target& target) {
  const CoopShape* shape = nullptr;
  bool one = true, whole = true;
  walk(kernel.body, [&](const Op& op) {
    if (op.code != Opcode::k_coopmat_mma) return;
    const CoopShape wanted = shapeOf(op);
    const CoopShape* own = target.shapeFor(wanted);
    one = one && own && (!shape || (own->m == shape->m && own->n == shape->n && own->k == shape->k));
    whole = whole && own && *own == wanted;
    shape = own;
  });
  if (shape && one && !whole) MatrixSplitter(kernel, *shape).run(kernel.body);
}

}  // namespace tg
