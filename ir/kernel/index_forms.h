// SPDX-License-Identifier: Apache-2.0
// The integers of a kernel as affine forms over what varies: where an invocation stands, iterations of loops,
// and values that are no affine function of these. Private to ir/kernel/index_*.cpp.
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

/// The values of an integer type; a bool is 0 or 1.
Interval wholeRange(DType dtype);

/// What forms are made of: for one execution of an op, each symbol has one value.
struct Symbol {
  enum class Kind : uint8_t {
    local,      ///< local_id of an axis
    group,      ///< workgroup_id of an axis
    launch,     ///< the same in the whole dispatch: an open extent, an unknown number of workgroups
    iteration,  ///< of a loop, from 0; or, when the step is no constant, the loop's index itself
    derived,    ///< `code` of `operands`, which are not affine together
    opaque,     ///< any other value
  };
  Kind kind = Kind::opaque;
  int axis = 0;
  DType dtype = DType::u32;
  Opcode code = Opcode::k_add;
  std::vector<Affine> operands;  ///< derived: wrapped, of `dtype`
  Interval base;                 ///< wherever the symbol exists
  bool open = false;             ///< the upper end of `base` is that of the type, or the limit of launches
  /// Whether it may differ where all `inputs` agree: it comes from memory that the kernel writes, or from
  /// other invocations.
  bool isVolatile = false;
  std::vector<int> inputs;  ///< what a derived or opaque one depends on
  int weight = 1;           ///< of a derived one: all that its operands are made of, each time counted
  /// A form that is not negative in a scope and those inside of it.
  struct Fact {
    int scope;
    Affine form;
  };
  std::vector<Fact> facts;
};

/// What holds inside of a body: the conditions around it.
struct Scope {
  int parent = -1;
  std::vector<Affine> facts;  ///< exact forms that are not negative here
  std::vector<Affine> zeros;  ///< forms that are 0 here mod 2^32, with a positive first coefficient
  std::vector<int> loops;     ///< iteration symbols of the loops around, outermost first
  bool complete = true;       ///< the facts of all scopes around say exactly when the body runs
};

/// The forms of all values of a kernel, made in one walk.
class Forms {
 public:
  Forms(const Item& kernel, const std::vector<Shape>* shapes);

  /// Congruent to the operand mod 2^32. Not for floats' literals.
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
  /// Whether a scope is another one, or inside of it.
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

/// Intervals of forms. A scope is a number of Forms. `open` asks for bounds that owe nothing to the limits
/// of types and launches: symbols that only these bound count as up to kOpen.
class Bounds {
 public:
  static constexpr int64_t kOpen = int64_t{1} << 50;
  /// No open bound that the text settles is as large; what `kOpen` reaches through a division may be.
  static constexpr int64_t kUnknown = int64_t{1} << 36;
  explicit Bounds(const Forms& forms) : forms_(forms) {}

  Interval of(const Affine& form, int scope, bool open = false) const;
  int64_t lower(const Affine& form, int scope, bool open = false) const;
  int64_t upper(const Affine& form, int scope, bool open = false) const;
  /// Of the value of a type that is congruent to a form.
  Interval value(const Affine& form, DType dtype, int scope, bool open = false) const;
  /// The form, shifted by a multiple of 2^32, that equals this value of a type; nullopt if it may wrap.
  std::optional<Affine> exact(const Affine& form, DType dtype, int scope) const;
  /// The same if the value is known to lie in `window`.
  std::optional<Affine> exactWithin(const Affine& form, Interval window, int scope) const;
  Interval symbol(int id, int scope, bool open = false) const;
  /// Of `code` applied to operands with these ranges.
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
    size_t facts = 0;  ///< facts that were known then; scopes grow while forms are made
  };
  mutable std::unordered_map<int64_t, Known> known_;
  static constexpr int kNone = INT_MAX;
  mutable int work_ =
      kNone;  ///< terms that may still be looked at for the bound being sought; kNone: no search
};

}  // namespace tg::indexing
