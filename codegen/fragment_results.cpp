// SPDX-License-Identifier: Apache-2.0
// Results of f32 are stored as matrices. Those of 16 bits go through a patch of shared memory, a part for each, so
// that every invocation stores 16 bytes at a time. For a row of matrices, as wide as the patch:
//
//   load operands that come later; compute, and store results of 16 bits to the patch; barrier; move them to
//   memory; barrier
#include "codegen/fragment_results.h"

#include <span>
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
  /// Eight neighbours of a result: their place in the patch, and among the results of a batch.
  struct Eight {
    std::vector<KV> place;
    Index row, column;
  };

  std::vector<Eight> eightsOf(int64_t part, int64_t i, int64_t j);
  std::vector<KV> load(FragmentEpilogue& epilogue, int64_t i, int64_t j);
  void compute(FragmentEpilogue& epilogue, const KV* sums, std::span<const KV> operands, int64_t i,
               int64_t j);
  void drain(int64_t i, int64_t j);

  Index plus(const Index& index, int64_t by) { return c_.space.add(index, IndexSpace::constant(by)); }
  KV at(const Index& index) { return c_.space.materialize(index); }
  /// A row of a batch among those of all.
  Index over(const Index& row) { return c_.space.add(c_.space.scale(t_.batch, p_.m), row); }
  Value* resultRows(size_t slot) {
    return c_.emitter.resultRows(c_.firstSlot + static_cast<int>(slot), p_.batch * p_.m, p_.n);
  }
  /// The subgroup's first row in a part of the patch.
  Index patchRow(int64_t part) {
    return plus(c_.space.scale(c_.space.variable(t_.subgroup, t_.subgroups), kSide),
                part * t_.subgroups * kSide);
  }

  LowerContext& c_;
  const Product& p_;
  const FragmentEpilogue::Operands& operands_;
  const FragmentTile& t_;
  Value* patch_ = nullptr;
};

/// Eights of the patch that this invocation moves between memory and one part of it: its place there, and in
/// the rows and columns that the part holds of the results.
std::vector<FragmentResults::Eight> FragmentResults::eightsOf(int64_t part, int64_t i, int64_t j) {
  const int64_t perRow = t_.patch / kEight, lanes = c_.target.subgroup;
  const Index lane = c_.space.variable(c_.kernel.subgroup(Opcode::k_subgroup_lane), lanes);
  std::vector<Eight> out;
  for (int64_t first = 0; first < kSide * perRow; first += lanes) {
    const Index cell = plus(lane, first);
    const Index row = c_.space.div(cell, perRow), eight = c_.space.mod(cell, perRow);
    out.push_back({{at(c_.space.add(patchRow(part), row)), at(eight)},
                   plus(c_.space.add(t_.top, row), i),
                   plus(c_.space.add(t_.left, c_.space.scale(eight, kEight)), j)});
  }
  return out;
}

/// The operands' matrices of a row as wide as the patch. What lies behind the end is something else.
std::vector<KV> FragmentResults::load(FragmentEpilogue& epilogue, int64_t i, int64_t j) {
  std::vector<KV> out;
  const Index row = c_.emitter.below(plus(t_.top, i), p_.m).second;
  for (int64_t first = 0; first < t_.patch; first += kSide) {
    const Index column = c_.emitter.below(plus(t_.left, j + first), p_.n).second;
    for (const Value* operand : operands_) out.push_back(epilogue.load(operand, over(row), column));
  }
  return out;
}

/// The results of a row as wide as the patch: those of f32 straight to memory, those of 16 bits to the patch.
void FragmentResults::compute(FragmentEpilogue& epilogue, const KV* sums, std::span<const KV> operands,
                              int64_t i, int64_t j) {
  size_t held = 0;
  for (int64_t first = 0; first < t_.patch; first += kSide)
    c_.bounded(plus(t_.top, i), p_.m, [&](const Index& row) {
      c_.bounded(plus(t_.left, j + first), p_.n, [&](const Index& column) {
        auto inPatch = [&](int64_t part) {
          return std::vector<KV>{at(patchRow(part)), KernelBuilder::u32(first / kEight)};
        };
        epilogue.begin(sums[first / kSide], over(row), column);
        int64_t part = 0;
        for (const Value* operand : operands_) epilogue.define(operand, operands[held++]);
        for (size_t slot = 0; slot < c_.yields.size(); ++slot) {
          const KV value = epilogue.emit(c_.yields[slot]);
          if (value.type.use == MatrixUse::acc)
            c_.kernel.coopmatStore(value, resultRows(slot), {at(over(row)), at(column)});
          else
            c_.kernel.coopmatStore(value, patch_, inPatch(part++));
        }
      });
    });
}

/// The results of 16 bits from the patch to memory, 16 bytes an invocation.
void FragmentResults::drain(int64_t i, int64_t j) {
  int64_t part = 0;
  for (size_t slot = 0; slot < c_.yields.size(); ++slot) {
    if (!isNarrow(c_.yields[slot]->type.dtype)) continue;
    for (const Eight& each : eightsOf(part, i, j))
      c_.bounded(each.row, p_.m, [&](const Index& row) {
        c_.bounded(each.column, p_.n, [&](const Index& column) {
          c_.kernel.store(c_.kernel.loadHere(patch_, each.place), resultRows(slot),
                          std::vector<KV>{at(over(row)), at(c_.space.div(column, kEight))});
        });
      });
    ++part;
  }
}

/// Operands are loaded ahead to hide their latency: one of 16 bits for the whole tile, as it takes half of the
/// registers that the sums do; others for the next row of matrices.
void FragmentResults::store(const std::vector<KV>& sums) {
  const int64_t parts = narrowCount(c_.yields);
  if (parts > 0)
    patch_ = c_.kernel.sharedBuffer(Type::buffer(DType::u32, kLanes,
                                                 {parts * t_.subgroups * kSide, narrowPatchColumns(t_.patch)},
                                                 BufMode::shared),
                                    "patch");
  FragmentEpilogue epilogue(c_.emitter, p_, factorType(*p_.op));
  const int64_t perRow = t_.warp[1] / t_.patch, count = t_.warp[0] / kSide * perRow;
  const bool few = operands_.size() <= 1 && (operands_.empty() || isNarrow(operands_[0]->type.dtype));
  const int64_t ahead = few ? count : 1;
  auto row = [&](int64_t number) { return number / perRow * kSide; };
  auto column = [&](int64_t number) { return number % perRow * t_.patch; };
  std::vector<std::vector<KV>> loaded;
  const KV* next = sums.data();
  for (int64_t number = 0; number < count; ++number, next += t_.patch / kSide) {
    for (int64_t other = std::ssize(loaded); other < count && other <= number + ahead; ++other)
      loaded.push_back(load(epilogue, row(other), column(other)));
    compute(epilogue, next, loaded[static_cast<size_t>(number)], row(number), column(number));
    if (parts == 0) continue;
    c_.kernel.barrier();
    drain(row(number), column(number));
    if (number + 1 < count) c_.kernel.barrier();
  }
}

}  // namespace

void storeFragments(LowerContext& c, const Product& p, const FragmentEpilogue::Operands& operands,
                    const FragmentTile& tile, const std::vector<KV>& sums) {
  FragmentResults(c, p, operands, tile).store(sums);
}

}  // namespace tg
