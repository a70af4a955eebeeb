// SPDX-License-Identifier: Apache-2.0
// f32 results are stored as matrices. 16-bit results go through a patch of shared memory, one result after another,
// so that every invocation stores 16 bytes at a time. Operands of 16 bits are loaded the same way; a matrix loaded from
// memory takes loads of 4 bytes. For each row of matrices, as wide as the patch:
//
//   load the operands of a later row; store each 16-bit operand of this row to the patch; barrier; load its matrices from
//   there; barrier; compute all results; store those of f32; for each 16-bit result: store it to the patch; barrier; copy
//   it to memory; barrier
//
// The results are computed together, so that what they have in common is computed once. The sums are not needed any more
// then, and a 16-bit result takes half of their registers. With a patch for each result, patches would be narrower and there
// would be as many barriers. The patch lies in the tile of an operand if that is large enough.
#include "codegen/fragment_epilogue.h"

#include <utility>

#include "codegen/schedule_coopmat.h"

namespace tg {
namespace {

class FragmentResults {
 public:
  FragmentResults(LowerContext& c, const Product& p, const FragmentEpilogue::Operands& operands,
                  const FragmentTile& tile)
      : c_(c), p_(p), operands_(operands), t_(tile) {}
  void store(const std::vector<KV>& sums);

 private:
  /// Eight neighbouring elements of a result: their place in the patch, and their row and column in the batch.
  struct Eight {
    std::vector<KV> place;
    Index row, column;
  };

  /// Matrices side by side, as wide as the patch; or the vectors of eight elements of them that this invocation loads.
  using Row = std::vector<KV>;

  std::vector<Eight> eightsOf(int64_t i, int64_t j);
  Row load(FragmentEpilogue& epilogue, const Value* operand, int64_t i, int64_t j);
  Row matricesOf(const Value* operand, const Row& loaded);
  std::vector<Row> compute(FragmentEpilogue& epilogue, const KV* sums, const std::vector<Row>& operands,
                           int64_t i, int64_t j);
  void storeMatrices(size_t slot, const Row& values, int64_t i, int64_t j);
  void takePatch();
  void fillPatch(const Row& values);
  void drain(size_t slot, int64_t i, int64_t j);

  Index plus(const Index& index, int64_t by) { return c_.space.add(index, IndexSpace::constant(by)); }
  KV at(const Index& index) { return c_.space.materialize(index); }
  /// The row counted over all batches.
  Index over(const Index& row) { return c_.space.add(c_.space.scale(t_.batch, p_.m), row); }
  Value* resultRows(size_t slot) {
    return c_.emitter.resultRows(c_.firstSlot + static_cast<int>(slot), p_.batch * p_.m, p_.n);
  }
  bool isInPatch(const Value* value) const { return patch_ && isNarrow(value->type.dtype); }
  /// The subgroup's first row in the patch.
  Index patchRow() { return c_.space.scale(c_.space.variable(t_.subgroup, t_.subgroups), kSide); }

  LowerContext& c_;
  const Product& p_;
  const FragmentEpilogue::Operands& operands_;
  const FragmentTile& t_;
  Value* patch_ = nullptr;
  bool patchIsFull_ = t_.room != nullptr;  ///< whether invocations may still read from it
};

/// The groups of eight elements that this invocation copies from the patch to memory, for the row of matrices at
/// row i and column j of the subgroup's part.
std::vector<FragmentResults::Eight> FragmentResults::eightsOf(int64_t i, int64_t j) {
  const int64_t perRow = t_.patch / kEight, lanes = c_.target.subgroup;
  const Index lane = c_.space.variable(c_.kernel.subgroup(Opcode::k_subgroup_lane), lanes);
  std::vector<Eight> out;
  for (int64_t first = 0; first < kSide * perRow; first += lanes) {
    const Index cell = plus(lane, first);
    const Index row = c_.space.div(cell, perRow), eight = c_.space.mod(cell, perRow);
    out.push_back({{at(c_.space.add(patchRow(), row)), at(eight)},
                   plus(c_.space.add(t_.top, row), i),
                   plus(c_.space.add(t_.left, c_.space.scale(eight, kEight)), j)});
  }
  return out;
}

/// Loads an operand's row as wide as the patch: matrices or, for the patch, this invocation's vectors. Beyond the product's
/// edge it loads other elements, which are not used.
FragmentResults::Row FragmentResults::load(FragmentEpilogue& epilogue, const Value* operand, int64_t i,
                                           int64_t j) {
  Row out;
  auto inside = [&](const Index& index, int64_t extent) { return c_.emitter.below(index, extent).second; };
  if (isInPatch(operand)) {
    Value* rows = c_.emitter.bindingRows(operand, p_.batch * p_.m, p_.n);
    for (const Eight& each : eightsOf(i, j))
      out.push_back(c_.kernel.loadHere(
          rows, {at(over(inside(each.row, p_.m))), at(c_.space.div(inside(each.column, p_.n), kEight))}));
    return out;
  }
  for (int64_t first = 0; first < t_.patch; first += kSide)
    out.push_back(
        epilogue.load(operand, over(inside(plus(t_.top, i), p_.m)), inside(plus(t_.left, j + first), p_.n)));
  return out;
}

/// The matrices of a row of an operand that `load` loaded.
FragmentResults::Row FragmentResults::matricesOf(const Value* operand, const Row& loaded) {
  if (!isInPatch(operand)) return loaded;
  takePatch();
  const std::vector<Eight> eights = eightsOf(0, 0);
  for (size_t i = 0; i < loaded.size(); ++i) c_.kernel.store(loaded[i], patch_, eights[i].place);
  c_.kernel.barrier();
  Row out;
  for (int64_t first = 0; first < t_.patch; first += kSide)
    out.push_back(c_.kernel.coopmatLoad(patch_, {at(patchRow()), KernelBuilder::u32(first / kEight)},
                                        Type::coopmat(operand->type.dtype, kSide, kSide, MatrixUse::a),
                                        false));
  return out;
}

/// Computes all results in a row as wide as the patch. Beyond the product's edge they mean nothing.
std::vector<FragmentResults::Row> FragmentResults::compute(FragmentEpilogue& epilogue, const KV* sums,
                                                           const std::vector<Row>& operands, int64_t i,
                                                           int64_t j) {
  std::vector<Row> out(c_.yields.size()), matrices;
  for (size_t held = 0; held < operands_.size(); ++held)
    matrices.push_back(matricesOf(operands_[held], operands[held]));
  const Index row = c_.emitter.below(plus(t_.top, i), p_.m).second;
  for (int64_t first = 0; first < t_.patch; first += kSide) {
    epilogue.begin(sums[first / kSide], over(row), c_.emitter.below(plus(t_.left, j + first), p_.n).second);
    for (size_t held = 0; held < operands_.size(); ++held)
      epilogue.define(operands_[held], matrices[held][static_cast<size_t>(first / kSide)]);
    for (size_t slot = 0; slot < out.size(); ++slot) out[slot].push_back(epilogue.emit(c_.yields[slot]));
  }
  return out;
}

/// Stores a row of matrices of an f32 result to memory.
void FragmentResults::storeMatrices(size_t slot, const Row& values, int64_t i, int64_t j) {
  for (size_t matrix = 0; matrix < values.size(); ++matrix)
    c_.bounded(plus(t_.top, i), p_.m, [&](const Index& row) {
      c_.bounded(plus(t_.left, j + static_cast<int64_t>(matrix) * kSide), p_.n, [&](const Index& column) {
        c_.kernel.coopmatStore(values[matrix], resultRows(slot), {at(over(row)), at(column)});
      });
    });
}

/// Waits until the patch may be overwritten.
void FragmentResults::takePatch() {
  if (std::exchange(patchIsFull_, true)) c_.kernel.barrier();
}

/// Stores a row of matrices of a 16-bit result to the patch.
void FragmentResults::fillPatch(const Row& values) {
  for (size_t i = 0; i < values.size(); ++i)
    c_.kernel.coopmatStore(values[i], patch_,
                           {at(patchRow()), KernelBuilder::u32(static_cast<int64_t>(i) * kSide / kEight)});
}

/// Copies a 16-bit result from the patch to memory, 16 bytes an invocation.
void FragmentResults::drain(size_t slot, int64_t i, int64_t j) {
  for (const Eight& each : eightsOf(i, j))
    c_.bounded(each.row, p_.m, [&](const Index& row) {
      c_.bounded(each.column, p_.n, [&](const Index& column) {
        c_.kernel.store(c_.kernel.loadHere(patch_, each.place), resultRows(slot),
                        std::vector<KV>{at(over(row)), at(c_.space.div(column, kEight))});
      });
    });
}

/// Operands are loaded ahead of their use to hide the latency: a single 16-bit operand for the whole part, since it
/// takes half of the registers that the sums do; others for the next row of matrices.
void FragmentResults::store(const std::vector<KV>& sums) {
  if (narrowCount(c_.yields) > 0) {
    const Shape extents = {t_.subgroups * kSide, narrowPatchColumns(t_.patch)};
    patch_ = t_.room;
    if (!patch_)
      patch_ = c_.kernel.sharedBuffer(Type::buffer(DType::u32, kLanes, extents, BufMode::shared), "patch");
  }
  FragmentEpilogue epilogue(c_.emitter, p_, factorType(*p_.op));
  const int64_t perRow = t_.warp[1] / t_.patch, count = t_.warp[0] / kSide * perRow;
  const bool few = operands_.size() <= 1 && (operands_.empty() || isNarrow(operands_[0]->type.dtype));
  const int64_t ahead = few ? count : 1;
  auto row = [&](int64_t number) { return number / perRow * kSide; };
  auto column = [&](int64_t number) { return number % perRow * t_.patch; };
  std::vector<std::vector<Row>> loaded;
  const KV* next = sums.data();
  for (int64_t number = 0; number < count; ++number, next += t_.patch / kSide) {
    for (int64_t other = std::ssize(loaded); other < count && other <= number + ahead; ++other) {
      loaded.emplace_back();
      for (const Value* operand : operands_)
        loaded.back().push_back(load(epilogue, operand, row(other), column(other)));
    }
    const std::vector<Row> results =
        compute(epilogue, next, loaded[static_cast<size_t>(number)], row(number), column(number));
    for (size_t slot = 0; slot < results.size(); ++slot) {
      if (!isInPatch(c_.yields[slot])) {
        storeMatrices(slot, results[slot], row(number), column(number));
        continue;
      }
      takePatch();
      fillPatch(results[slot]);
      c_.kernel.barrier();
      drain(slot, row(number), column(number));
    }
  }
}

}  // namespace

void storeFragments(LowerContext& c, const Product& p, const FragmentEpilogue::Operands& operands,
                    const FragmentTile& tile, const std::vector<KV>& sums) {
  FragmentResults(c, p, operands, tile).store(sums);
}

}  // namespace tg
