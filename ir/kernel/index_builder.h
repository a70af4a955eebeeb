// SPDX-License-Identifier: Apache-2.0
// The walk over a kernel that makes indexing::Forms. Private to ir/kernel/index_forms.cpp and index_values.cpp.
#pragma once

#include "ir/kernel/index_forms.h"

namespace tg::indexing {

/// Whether a value is one u32 or i32.
inline bool isInteger(const Type& type) {
  return type.isScalar() && type.lanes == 1 && (type.dtype == DType::u32 || type.dtype == DType::i32);
}

/// Makes the forms, scopes and facts of one kernel. A block is visited in text order, so that the forms of operands
/// exist before those of results.
class FormsBuilder {
 public:
  FormsBuilder(Forms& forms, const Item& kernel, const std::vector<Shape>* shapes);
  void run();

 private:
  using Kind = Symbol::Kind;
  int add(Symbol symbol);
  int launchSymbol(int64_t most);
  Affine opaque(const Value& value, std::vector<int> inputs, bool isVolatile);
  Affine derived(Opcode code, DType dtype, std::vector<Affine> operands, std::vector<int> inputs,
                 const std::string& extra = {});
  int newScope(int parent);
  void addFact(int scope, Affine fact);
  void addConsequence(int scope, const Affine& symbol, Affine fact);
  void addZero(int scope, const Affine& form);
  void condition(int scope, const Operand& cond, bool holds);
  void condition(int scope, const Operand& cond, bool holds, int& most);
  void comparison(int scope, const Op& op, bool holds);
  void less(int scope, const Affine& a, const Affine& b, DType dtype, int64_t strict);

  void visit(const Block& block, int scope);
  void visitIf(const Op& op, int scope);
  void visitFor(const Op& op, int scope);
  Affine iteration(const Op& op, int scope, int inner, Affine& step);
  Affine carried(const Op& op, size_t index, const Affine& iteration);
  void visitCarried(const Op& op, int inner, const Affine& count, bool counted);
  void define(const Op& op, int scope);
  Affine value(const Op& op, int scope);
  Affine loaded(const Op& op);
  Affine integer(const Op& op, int scope);
  /// One of two possible values, and the scope in which it is the one taken.
  struct Side {
    Affine form;
    int scope;
  };
  Affine selected(const Op& op, int scope);
  bool mayHold(int scope, int around) const;
  Interval either(const Side& a, const Side& b, DType dtype, bool open = false) const;
  Affine product(const Op& op, const Affine& a, const Affine& b);
  Affine divided(const Op& op, const Affine& a, const Affine& b, int scope);
  Affine quotient(const Op& op, const Affine& a, int64_t divisor, bool remainder, int scope);
  Affine bounded(const Op& op, const Affine& a, const Affine& b, int scope);
  std::vector<int> inputsOf(const Op& op) const;
  static void symbolsOf(const Affine& form, std::vector<int>& out);
  Affine form(const Operand& operand) const { return f_.form(operand); }

  Forms& f_;
  Bounds bounds_;
  const Item& kernel_;
  std::vector<Shape> shapes_;
  std::array<int64_t, 3> grid_{1, 1, 1};
  std::array<Affine, 3> groups_;
  std::unordered_map<std::string, int> interned_;
};

}  // namespace tg::indexing
