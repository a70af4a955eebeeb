// SPDX-License-Identifier: Apache-2.0
// The implementation of printGlsl: one class whose members are spread over glsl.cpp (outline and control flow),
// glsl_memory.cpp (parameters, loads, stores, atomics), glsl_cooperate.cpp (barriers, reductions, subgroups) and
// glsl_coopmat.cpp (matrices). Arithmetic is printed by glsl_expr.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "codegen/glsl.h"
#include "codegen/glsl_expr.h"
#include "codegen/khr_matrices.h"
#include "ir/kernel/index_analysis.h"
#include "ir/kernel/kernel.h"
#include "ir/module.h"
#include "ir/type.h"

namespace tg {

/// Gives each value of a kernel a GLSL identifier: its own name, changed only if GLSL does not allow it (keywords,
/// built-in functions, characters, double underscores, length).
class GlslNames {
 public:
  /// The identifier of a value, the same at every call.
  const std::string& of(const Value* value);
  /// Makes `alias` print as `value` does.
  void alias(const Value* alias, const Value* value) { names_[alias] = of(value); }
  /// An identifier that no value has yet, like `hint`.
  std::string unique(const std::string& hint);

 private:
  std::unordered_map<const Value*, std::string> names_;
  std::unordered_set<std::string> taken_;
};

/// What must be known of a kernel before its first line is printed: how buffers are used, and which extensions.
struct GlslSurvey {
  std::unordered_set<const Value*> loaded, written;
  std::unordered_set<const Value*> floatBits;  ///< f32 buffers declared as uint, for atomics on their bits
  bool barriers = false, reductions = false;
  bool texels = false, unrolls = false, halves = false, nativeAdds = false;
  bool subgroupBasic = false, subgroupArithmetic = false, subgroupShuffle = false, subgroupBallot = false;
  bool matrices = false, khrMatrices = false;
  bool quads = false;                    ///< the target says which elements of a matrix an invocation holds
  std::set<MatrixExtent> matrixExtents;  ///< of all matrix types
  bool storesHalves = false;             ///< the target stores 16-bit elements

  GlslSurvey(const Item& kernel, const Target& target);

 private:
  void visit(const Op& op);
};

/// Lines of text, each with the op that it was printed from.
class GlslLines {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    out_.text += std::string(2 * depth, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
    out_.lineLocs.push_back(op ? op->loc : nullptr);
    out_.lineOps.push_back(op ? op->info().name : std::string_view());
  }
  void append(const GlslLines& other) {
    out_.text += other.out_.text;
    out_.lineLocs.insert(out_.lineLocs.end(), other.out_.lineLocs.begin(), other.out_.lineLocs.end());
    out_.lineOps.insert(out_.lineOps.end(), other.out_.lineOps.begin(), other.out_.lineOps.end());
  }
  /// Adds a text of several lines that belongs to no op.
  void block(std::string_view text) {
    for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
      add("{}", text.substr(0, end));
  }
  GlslText take() { return std::move(out_); }

  int depth = 0;
  const Op* op = nullptr;

 private:
  GlslText out_;
};

/// A branch of an if: the condition, and whether it holds there.
struct OpenBranch {
  const Value* condition;
  bool holds;
};

class GlslPrinter {
 public:
  GlslPrinter(const Item& kernel, const Target& target) : kernel_(kernel), survey_(kernel, target) {}
  GlslText print();

 private:
  // glsl.cpp
  void extensions(GlslLines& out) const;
  void body(const Block& block);
  void op(const Op& op);
  void define(const Op& op, const std::string& expression);
  void branch(const Op& op);
  void branchBody(const Op& op, const Block& block);
  bool indexMayWrap(const Op& loop);
  void loop(const Op& op);
  void yieldToLoop(const Op& op);
  std::string operandText(const Operand& operand, const Type& type);
  std::string expression(const Op& op);

  // glsl_foresee.cpp
  void foresee();
  void foresee(const Block& block);
  void foresee(const Op& op);
  void foreseeResults(const Op& op);
  bool isForeseen(const Operand& operand) const;
  bool selectsAlike(const Op& op) const;

  // glsl_memory.cpp
  void parameter(const Value& param, int binding);
  void declare(const Op& op);
  void store(const Op& op);
  void write(const Operand& element, const std::string& value);
  void accumulate(const Op& op);
  void atomic(const Op& op, std::string_view function);
  void atomicAdd(const Op& op);
  void atomicAddLoop(const Op& op);
  void compareExchange(const Op& op);
  void keepOld(const Op& op, const std::string& call, bool bits);
  std::string load(const Op& op);
  std::string read(const Operand& element);
  std::string packing(const std::string& kind, const Type& element);
  std::string narrowing(DType dtype, const char* gives, int lanes = 1);
  /// A 16-bit real in a word: the expression of the word, and that of the bits to shift by.
  struct Half {
    std::string word, shift;
  };
  Half halfOf(const Operand& element);
  bool inWords(const Value& buffer) const;
  std::string extent(const Op& op);
  std::string exact(const Op& op);
  std::string place(const Operand& element);
  std::string flatIndex(const Operand& element);
  std::string storedType(const Value& buffer) const;
  bool coherent(const Value& param) const;
  bool anyCoherent() const;

  // glsl_cooperate.cpp
  void barrier();
  std::string workgroupReduce(const Op& op);
  std::string subgroupReduce(const Op& op);
  std::string subgroupShuffle(const Op& op);

  // glsl_coopmat.cpp
  std::string roundHalf(const Op& op);
  std::string roundBf16(const Op& op);
  std::string packNarrow(const Op& op, DType narrow);
  std::string unpackNarrow(const Op& op, DType narrow);
  std::string matrixPlace(const Operand& element);
  void matrixLoad(const Op& op);
  void matrixStore(const Op& op);
  void matrixProduct(const Op& op);
  std::string matrixCount(const Type& type, const std::string& name) const;
  void matrixEach(const Op& op, const std::string& element);
  std::vector<const Op*> matrixRun(const Op& first) const;
  void matrixElements(const std::vector<const Op*>& run);
  std::string matrixAxis(const Op& op);
  void matrixIndex(const Op& op);
  void matrixRepeat(const Op& op);
  void matrixRowReduce(const Op& op);
  void matrixAnyAbove(const Op& op);
  void matrixConvert(const Op& op);

  const Item& kernel_;
  GlslSurvey survey_;
  std::optional<IndexAnalysis> indices_;       ///< made when a loop first needs it
  std::unordered_set<const Value*> foreseen_;  ///< see foresee()
  std::vector<OpenBranch> open_;               ///< the branches around the current op
  std::unordered_set<const Value*> elements_;  ///< matrices of which only element `e` exists, as a scalar
  GlslNames names_;
  GlslHelpers helpers_;
  std::map<std::string, std::string> functions_;  ///< functions by name: reductions, conversions, exact sums
  std::map<std::string, std::string> scratch_;    ///< shared memory of the reductions, by name
  GlslLines shared_, main_;
};

/// The type of a variable of a scalar or matrix type: `precise float`, `uint`, `fcoopmatNV<…>`.
std::string glslVariable(const Type& type);

/// A function that adds to, loads or stores an exact sum in one buffer. Each buffer needs its own, since GLSL
/// cannot pass a buffer to a function.
std::string exactFunction(const std::string& kind, const std::string& function, const std::string& buffer);

/// A matrix type, such as `fcoopmatNV<16, gl_ScopeSubgroup, tgM16, tgK16>`. It has the form of
/// GL_NV_cooperative_matrix, which every version of the compiler accepts, with extents that toKhrMatrices
/// understands.
std::string glslMatrix(const Type& type);
/// The declaration of the specialization constant of an extent.
std::string glslMatrixExtent(const MatrixExtent& extent);
/// The extensions that a shader with matrices requires.
std::vector<const char*> glslMatrixExtensions();

}  // namespace tg
