// SPDX-License-Identifier: Apache-2.0
// Index algebra. An Index is a sum of kernel variables with constant factors. The divisions and remainders that
// reshapes need are simplified at compile time, so that a view that undoes another costs no instruction:
//
//   offset = 12·i + 3·j + k,  j < 4, k < 3      offset / 12 = i,  offset % 12 = 3·j + k,  (offset % 12) / 3 = j
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/kernel/builder.h"

namespace tg {

/// c + Σ factor·variable. The variables are numbers that an IndexSpace gave out. Factors may be negative, for an
/// axis that is read backwards; the value of the whole never is.
struct Index {
  int64_t c = 0;
  std::vector<std::pair<int, int64_t>> terms;  ///< (variable, factor), by variable, factors not 0
  bool isConstant() const { return terms.empty(); }
  bool operator==(const Index&) const = default;
  /// Appends an encoding of the index to a key, in bytes.
  void appendTo(std::string& key) const;
};

using Indices = std::vector<Index>;

/// The variable that stands for the number 0…3 of a vector's lane. It never becomes a kernel value.
constexpr int kLane = 0;
constexpr int kLanes = 4;

/// The variables of one kernel, with what is known of each: its range, alignment, and the division it came from.
class IndexSpace {
 public:
  explicit IndexSpace(KernelBuilder& kernel);
  /// A variable over 0..range-1 whose values are multiples of `align`.
  Index variable(const KV& value, int64_t range, int64_t align = 1);
  static Index constant(int64_t value) { return {value, {}}; }
  static Index lane() { return {0, {{kLane, 1}}}; }

  Index add(const Index& a, const Index& b) const;
  Index scale(const Index& a, int64_t factor) const;
  /// Quotient and remainder by a positive constant. A part that does not simplify becomes a new variable, which is
  /// opaque to the algebra but remembers its division.
  Index div(const Index& a, int64_t n);
  Index mod(const Index& a, int64_t n);
  /// Row-major offset, and its inverse.
  Index linear(const Indices& indices, const Shape& shape) const;
  Indices delinear(const Index& offset, const Shape& shape);

  int64_t max(const Index& a) const;    ///< the largest value it takes
  int64_t align(const Index& a) const;  ///< a number that divides all its values
  static int64_t factor(const Index& a, int variable);
  static bool usesLane(const Index& a) { return factor(a, kLane) != 0; }
  static bool usesLane(const Indices& indices);
  /// The index with the lane variable replaced by a number.
  static Index atLane(const Index& a, int lane);
  static Indices atLane(const Indices& indices, int lane);
  /// Whether the quotient by n is the same for all four lanes, or linear in the lane.
  bool laneSplits(const Index& a, int64_t n) const;
  /// Whether this holds for every division that delinear makes.
  bool laneDelinearizes(const Index& offset, const Shape& shape);

  /// Whether every variable of a is one of `from`'s, or comes from divisions of indices made of these.
  bool follows(const Index& a, const Index& from) const;

  /// Emits the index as a u32 value: a scalar, or a vector of four if it has the lane variable.
  KV materialize(const Index& a);
  int level(const Index& a) const;  ///< depth of the innermost scope that defines one of its variables

 private:
  enum class Part : uint8_t { none, quotient, remainder };
  struct Variable {
    KV value;
    int64_t range, align;
    Part part;
    int whole;  ///< the division it came from, if any
    int64_t n;
  };
  struct Division {
    Index base;
    int64_t n;
    int quotient = -1, remainder = -1;  ///< variables; made when first asked for
  };
  /// Splits a into n·whole + rest, where rest holds the terms that n does not divide and is never negative.
  void split(const Index& a, int64_t n, Index& whole, Index& rest) const;
  /// The part of rest's constant that does not change its quotient by n. Let u be a number that divides n and all
  /// terms of rest: the constant mod u then can't carry over into the next multiple of u.
  int64_t belowUnit(const Index& rest, int64_t n) const;
  /// The variable for the quotient or remainder of base by n; the same one whenever it is asked for again.
  int division(const Index& base, int64_t n, Part part);
  /// Replaces the two parts of one division by what was divided, if both are among the terms.
  void rejoin(Index& a) const;

  KernelBuilder& kernel_;
  std::vector<Variable> variables_;
  std::vector<Division> divisions_;
  std::unordered_map<std::string, int> divided_;
};

}  // namespace tg
