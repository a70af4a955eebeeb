// SPDX-License-Identifier: Apache-2.0
// The epilogue and the results of a product, computed on the cooperative matrices that hold its sums. Private to
// codegen/.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/product.h"

namespace tg {

/// Computes the epilogue of a product on its accumulators, in registers, one 16x16 matrix at a time. The epilogue
/// may have elementwise ops, casts, reshapes, broadcasts and constants. Their operands are the sums, tensors with
/// the product's extents, vectors along its columns, and scalars.
class FragmentEpilogue {
 public:
  /// `narrow` is the 16-bit type of the product's factors.
  FragmentEpilogue(RegionEmitter& emitter, const Product& p, DType narrow)
      : emitter_(emitter), kernel_(emitter.kernel()), p_(p), narrow_(narrow) {}
  /// The bindings with the product's extents that the epilogue reads. Nothing if the target, or an op of the
  /// region, rules out an epilogue on accumulators.
  using Operands = std::vector<const Value*>;
  static std::optional<Operands> operandsOf(const Op& fused, const PlainRegion& region, const Product& p,
                                            const Target& target);

  /// Begins with another matrix of sums. `row` counts over the rows of all batches.
  void begin(const KV& sums, const Index& row, const Index& column);
  /// Loads the matrix of an operand at a place: an f32 accumulator, or an operand A if it has 16 bits.
  KV load(const Value* operand, const Index& row, const Index& column);
  /// Gives the matrix of an operand that was loaded ahead; `begin` forgets it.
  void define(const Value* operand, const KV& value) { known_[operand] = value; }
  /// Emits a value of the region at the matrix that `begin` named: an f32 accumulator, an operand A if it has 16
  /// bits, or a scalar that stands for all elements. The result means nothing after a failure (see `failed`).
  KV emit(const Value* v);
  bool failed() const { return failed_; }

 private:
  KV compute(const Value* v);
  KV binding(const Value* v);
  KV fail() {
    failed_ = true;
    return KernelBuilder::f32(0);
  }
  /// Whether a value has the product's extents.
  bool isWhole(const Value* v) const { return v->type.elements() == p_.batch * p_.m * p_.n; }
  /// Whether an operand of an op with this result shape has all elements, is a vector along the columns, or a
  /// scalar.
  bool liesAlong(const Value* v, const Shape& shape) const;

  RegionEmitter& emitter_;
  KernelBuilder& kernel_;
  const Product& p_;
  DType narrow_;
  KV sums_;
  Index row_, column_;
  std::unordered_map<const Value*, KV> known_;
  Operands operands_;  ///< operands with the product's extents that were loaded while emitting
  bool failed_ = false;
};

/// The part of a product that a subgroup holds.
struct FragmentTile {
  Index batch, top, left;       ///< the batch; the part's first row and column in it
  std::array<int64_t, 2> warp;  ///< rows and columns of the part
  int64_t patch;                ///< columns that go through shared memory at a time
  KV subgroup;                  ///< the subgroup's number in the workgroup
  int64_t subgroups;            ///< number of subgroups in the workgroup
  Value* room;  ///< an operand's tile that may hold the patches after a barrier; null if none may
};

/// Computes and stores all results of the region from the sums, one row of matrices after another. `operands` come
/// from FragmentEpilogue::operandsOf.
void storeFragments(LowerContext& c, const Product& p, const FragmentEpilogue::Operands& operands,
                    const FragmentTile& tile, const std::vector<KV>& sums);

}  // namespace tg
