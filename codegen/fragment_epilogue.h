// SPDX-License-Identifier: Apache-2.0
// What a region computes behind a product, on the matrices that hold the product's sums. Private to codegen/.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/product.h"

namespace tg {

/// Computes the epilogue of a product on its accumulators, in registers. The epilogue may hold elementwise ops, casts,
/// reshapes and constants; their operands are the sums, tensors of the product's extents, vectors along its columns
/// and scalars.
class FragmentEpilogue {
 public:
  /// `narrow` is the product's type of 16 bits.
  FragmentEpilogue(RegionEmitter& emitter, const Product& p, DType narrow)
      : emitter_(emitter), kernel_(emitter.kernel()), p_(p), narrow_(narrow) {}
  /// The bindings of the product's extents that the epilogue reads; nothing where the target, or an op of the
  /// region, does not allow an epilogue on accumulators.
  using Operands = std::vector<const Value*>;
  static std::optional<Operands> operandsOf(const Op& fused, const PlainRegion& region, const Product& p,
                                            const Target& target);

  /// Begins with another matrix of sums; its first row is counted over all batches.
  void begin(const KV& sums, const Index& row, const Index& column);
  /// Loads a matrix of such an operand: an accumulator of f32, or an operand A where it has 16 bits.
  KV load(const Value* operand, const Index& row, const Index& column);
  /// Gives the matrix of an operand that was loaded ahead; `begin` forgets it.
  void define(const Value* operand, const KV& value) { known_[operand] = value; }
  /// A value of the region at the matrix that `begin` named: an accumulator of f32, an operand A where it has 16
  /// bits, or a scalar that stands for all elements. After a failure the value means nothing.
  KV emit(const Value* v);
  bool failed() const { return failed_; }

 private:
  KV compute(const Value* v);
  KV binding(const Value* v);
  KV fail() {
    failed_ = true;
    return KernelBuilder::f32(0);
  }
  bool isWhole(const Value* v) const { return v->type.elements() == p_.batch * p_.m * p_.n; }
  /// Whether an operand of an op of this result shape is whole, a vector along the columns, or a scalar.
  bool liesAlong(const Value* v, const Shape& shape) const;

  RegionEmitter& emitter_;
  KernelBuilder& kernel_;
  const Product& p_;
  DType narrow_;
  KV sums_;
  Index row_, column_;
  std::unordered_map<const Value*, KV> known_;
  Operands operands_;  ///< loaded while emitting
  bool failed_ = false;
};

}  // namespace tg
