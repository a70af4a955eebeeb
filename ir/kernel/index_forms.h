// SPDX-License-Identifier: Apache-2.0
// The integers of a kernel as affine forms. Private to ir/kernel/index_*.cpp.
//
// Each u32 or i32 value becomes constant + Σ coefficient · symbol, congruent to the value mod 2^32. The symbols stand
// for what varies: local and workgroup ids, loop iterations, open extents, and values that are no affine function of
// other symbols. Scopes hold what the conditions around a body prove:
//
//   %i = tgk.global_id 0           →  local + 64·group
//   tgk.if (%i < %n) { … }         →  a scope with the fact n - 1 - local - 64·group >= 0
//
// One walk over the kernel makes forms and scopes (index_forms.cpp; index_values.cpp has the form of each op's
// result). From these follow intervals (index_bounds.cpp), which invocation accesses an element (index_decode.cpp),
// pairs of stores to one element (index_witness.cpp) and loads of elements that are all stored before
// (index_cover.cpp).
#pragma once

#include <array>
#include <climits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/kernel/affine.h"
#include "ir/kernel/index_analysis.h"
#include "ir/kernel/kernel.h"

namespace tg::indexing {

using Interval = IndexAnalysis::Interval;

/// The range of an integer type; a bool is 0 or 1.
Interval wholeRange(DType dtype);

/// A variable of the forms: in one execution of an op each symbol has one value.
struct Symbol {
  enum class Kind : uint8_t {
    local,   ///< local_id of an axis
    group,   ///< workgroup_id of an axis
    launch,  ///< uniform over the dispatch: an open extent, an unknown number of workgroups, the subgroup size
    iteration,  ///< of a loop, counted from 0; if the step is not constant or the index may wrap, the loop's index itself
    derived,  ///< `code` of `operands`; the result is not affine in their symbols
    opaque,   ///< any other value
  };
  Kind kind = Kind::opaque;
  DType dtype = DType::u32;
  Opcode code = Opcode::k_add;
  std::vector<Affine> operands;  ///< derived: wrapped, of `dtype`
  Interval base;                 ///< its range wherever the symbol exists
  bool open = false;  ///< the upper end of `base` comes only from the type's range or from the limit of
                      ///< launches
  /// Whether it may differ between executions in which all `inputs` agree: it comes from memory that the kernel
  /// writes, or from other invocations.
  bool isVolatile = false;
  std::vector<int> inputs;  ///< the symbols that a derived or opaque one depends on
  int weight = 1;           ///< of a derived one: symbols in its operands and in theirs, with repetitions
  /// A form that is >= 0 in a scope and in those inside it.
  struct Fact {
    int scope;
    Affine form;
  };
  std::vector<Fact> facts;
};

/// What is known inside a body, from the conditions around it.
struct Scope {
  int parent = -1;
  std::vector<Affine> facts;  ///< forms that are >= 0 here, as integers and not mod 2^32
  std::vector<Affine> zeros;  ///< forms that are 0 here mod 2^32, with a positive first coefficient
  std::vector<int> loops;     ///< iteration symbols of the loops around, outermost first
  bool complete = true;       ///< the body runs exactly when the facts of this and all outer scopes hold
};

/// The forms of all values of a kernel.
class Forms {
 public:
  Forms(const Item& kernel, const std::vector<Shape>* shapes);

  /// The form that is congruent to the operand mod 2^32. Not for literals of floats.
  Affine form(const Operand& operand) const;
  const Symbol& symbol(int id) const { return symbols_[static_cast<size_t>(id)]; }
  int symbols() const { return static_cast<int>(symbols_.size()); }
  const Scope& scope(int id) const { return scopes_[static_cast<size_t>(id)]; }
  int scopeOf(const Op& op) const { return scopeOfBlock(blockOf_.at(&op)); }
  int scopeOf(const Value& value) const;
  int scopeOfBlock(const Block* block) const { return blockScope_.at(block); }
  /// The facts of a scope and those around it, innermost first.
  const std::vector<Affine>& facts(int scope) const { return allFacts_[static_cast<size_t>(scope)]; }
  std::vector<Affine> zeros(int scope) const;
  /// Calls fn with each fact of a symbol that holds in a scope.
  template <class Function>
  void forFacts(int symbol, int scope, Function&& fn) const {
    for (const Symbol::Fact& fact : this->symbol(symbol).facts)
      if (isWithin(scope, fact.scope)) fn(fact.form);
  }

  int localSymbol(int axis) const { return local_[static_cast<size_t>(axis)]; }  ///< -1: one invocation
  int groupSymbol(int axis) const { return group_[static_cast<size_t>(axis)]; }  ///< -1: one workgroup
  /// The extent of a buffer's axis.
  Affine extent(const Value* buffer, int axis) const;

 private:
  friend class FormsBuilder;
  /// Whether `scope` is `other`, or nested in it.
  bool isWithin(int scope, int other) const;

  std::vector<Symbol> symbols_;
  std::vector<Scope> scopes_;
  std::vector<std::vector<Affine>> allFacts_;
  std::unordered_map<const Value*, Affine> forms_;
  std::unordered_map<const Block*, int> blockScope_;
  std::unordered_map<const Op*, const Block*> blockOf_;
  std::unordered_map<const Value*, const Block*> argBlock_;
  std::unordered_map<const Value*, std::vector<Affine>> extents_;
  std::array<int, 3> local_{-1, -1, -1}, group_{-1, -1, -1};
};

/// Intervals of forms. A scope is given by its number in Forms. `open` asks for bounds that do not rely on the limits
/// of types and launches: symbols that are bounded only by these count as up to kOpen.
class Bounds {
 public:
  static constexpr int64_t kOpen = int64_t{1} << 50;
  /// An open bound from here on means unknown: no bound that the kernel's text determines is as large. Far below
  /// `kOpen`, which a division makes smaller.
  static constexpr int64_t kUnknown = int64_t{1} << 36;
  explicit Bounds(const Forms& forms) : forms_(forms) {}

  Interval of(const Affine& form, int scope, bool open = false) const;
  int64_t lower(const Affine& form, int scope, bool open = false) const;
  int64_t upper(const Affine& form, int scope, bool open = false) const;
  /// The interval of the value of type `dtype` that is congruent to a form.
  Interval value(const Affine& form, DType dtype, int scope, bool open = false) const;
  /// The form, shifted by a multiple of 2^32, that equals the value of type `dtype` as an integer; nullopt if the
  /// value may wrap.
  std::optional<Affine> exact(const Affine& form, DType dtype, int scope) const;
  /// The same for a value that is known to lie in `window`.
  std::optional<Affine> exactWithin(const Affine& form, Interval window, int scope) const;
  Interval symbol(int id, int scope, bool open = false) const;
  /// The interval of `code` applied to operands with these intervals.
  static Interval derived(Opcode code, DType dtype, const std::vector<Interval>& operands);

 private:
  class Search;

  Wide lowerWide(const Affine& form, int scope, bool open, int depth) const;
  Interval base(int id, bool open) const;
  Interval compute(int id, int scope, bool open) const;

  const Forms& forms_;
  struct Known {
    Interval interval;
    bool ready = false, busy = false;
    size_t facts = 0;  ///< the number of facts when it was computed; scopes gain facts while forms are made
  };
  mutable std::unordered_map<int64_t, Known> known_;
  static constexpr int kNone = INT_MAX;
  /// Terms that the current search for a bound may still look at; kNone: no search is running.
  mutable int work_ = kNone;
};

}  // namespace tg::indexing
