// SPDX-License-Identifier: Apache-2.0
// Index algebra: sums of kernel variables with constant factors, simplified through the division
// and remainder that reshapes need, so that views cost nothing where they can be undone.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/kernel/builder.h"

namespace tg {

/// c + Σ factor·variable. Variables are numbers an IndexSpace gave out. Factors may be negative, as where an
/// axis is read backwards; the whole never is.
struct Index {
  int64_t c = 0;
  std::vector<std::pair<int, int64_t>> terms;  ///< (variable, factor), by variable, factors not 0
  bool isConstant() const { return terms.empty(); }
  bool operator==(const Index&) const = default;
  /// Appends the index as bytes, from which it can be told.
  void appendTo(std::string& key) const;
};

using Indices = std::vector<Index>;

/// The variable that counts the four lanes of a vector; it is never a kernel value.
constexpr int kLane = 0;
constexpr int kLanes = 4;

class IndexSpace {
 public:
  explicit IndexSpace(KernelBuilder& kernel);
  /// A variable over 0..range-1 whose values are multiples of `align`.
  Index variable(const KV& value, int64_t range, int64_t align = 1);
  static Index constant(int64_t value) { return {value, {}}; }
  static Index lane() { return {0, {{kLane, 1}}}; }

  Index add(const Index& a, const Index& b) const;
  Index scale(const Index& a, int64_t factor) const;
  /// Quotient and remainder by a positive constant; opaque variables where they do not simplify.
  Index div(const Index& a, int64_t n);
  Index mod(const Index& a, int64_t n);
  /// Row-major offset, and its inverse.
  Index linear(const Indices& indices, const Shape& shape) const;
  Indices delinear(const Index& offset, const Shape& shape);

  int64_t max(const Index& a) const;    ///< the largest value it takes
  int64_t align(const Index& a) const;  ///< a number all its values are multiples of
  static int64_t factor(const Index& a, int variable);
  static bool usesLane(const Index& a) { return factor(a, kLane) != 0; }
  static bool usesLane(const Indices& indices);
  /// With the lane variable replaced by a number.
  static Index atLane(const Index& a, int lane);
  static Indices atLane(const Indices& indices, int lane);
  /// Whether dividing by n keeps the lanes apart from opaque variables.
  bool laneSplits(const Index& a, int64_t n) const;
  /// The same for every division that delinear makes.
  bool laneDelinearizes(const Index& offset, const Shape& shape);

  /// Whether a has no variables but those of `from` and what divisions of these gave.
  bool follows(const Index& a, const Index& from) const;

  /// The index as a u32 value: a scalar, or a vector of four where the lane variable takes part.
  KV materialize(const Index& a);
  int level(const Index& a) const;  ///< depth of the innermost scope it needs

 private:
  enum class Part : uint8_t { none, quotient, remainder };
  struct Variable {
    KV value;
    int64_t range, align;
    Part part;
    int whole;  ///< which division it came from
    int64_t n;
  };
  struct Division {
    Index base;
    int64_t n;
    int quotient = -1, remainder = -1;  ///< variables, made when first asked for
  };
  /// Splits a into n·whole + rest: rest holds the terms that n does not divide, and is never negative.
  void split(const Index& a, int64_t n, Index& whole, Index& rest) const;
  /// The part of rest's constant that no quotient by n depends on: all other terms, and n, are multiples of a unit,
  /// of which it is the remainder.
  int64_t belowUnit(const Index& rest, int64_t n) const;
  int division(const Index& base, int64_t n, Part part);
  void rejoin(Index& a) const;

  KernelBuilder& kernel_;
  std::vector<Variable> variables_;
  std::vector<Division> divisions_;
  std::unordered_map<std::string, int> divided_;
};

}  // namespace tg
