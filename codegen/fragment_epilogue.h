// SPDX-License-Identifier: Apache-2.0
// What a region computes behind a product, on the matrices that hold the product's sums. Private to codegen/.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/product.h"

namespace tg {

/// Elementwise ops, casts, reshapes and constants, over the sums, over values of the product's extents and over
/// vectors along its columns. Each is computed where the sums are, in registers, so that no element is moved
/// before the results are whole.
class FragmentEpilogue {
 public:
  /// `narrow` is the product's type of 16 bits.
  FragmentEpilogue(RegionEmitter& emitter, const Product& p, DType narrow)
      : emitter_(emitter), kernel_(emitter.kernel()), p_(p), narrow_(narrow) {}
  /// The bindings of the product's extents that the results need, if all results of the region come this way on
  /// the target.
  using Operands = std::vector<const Value*>;
  static std::optional<Operands> operandsOf(const Op& fused, const PlainRegion& region, const Product& p,
                                            const Target& target);

  /// Begins with another matrix of sums; its first row is counted over all batches.
  void begin(const KV& sums, const Index& row, const Index& column);
  /// A matrix of such an operand: an accumulator, of 16 bits an operand A.
  KV load(const Value* operand, const Index& row, const Index& column);
  /// Says what such an operand is there, when it was loaded before.
  void define(const Value* operand, const KV& value) { known_[operand] = value; }
  /// A value of the region there: an accumulator, an operand A where it has 16 bits, or one scalar for all
  /// elements. Anything after a failure.
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
  /// Whether the elements of v that belong to the product's are found by their number.
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
