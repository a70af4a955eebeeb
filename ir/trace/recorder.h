// SPDX-License-Identifier: Apache-2.0
// Inside the front end: the function that is being traced, and how operations append to it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "ir/builder.h"
#include "ir/trace/custom.h"
#include "ir/trace/module.h"
#include "ir/trace/site.h"
#include "ir/trace/tensor.h"

namespace tg::nn {

/// A place in a C++ source as a location of the IR.
Loc locOf(const Site& site);

/// Whether `name` can follow a % or @ of the text: letters, digits, '_', '.' and '$'.
bool isName(std::string_view name);

/// The attributes that declare a parameter: what its init is, or makes.
Result<AttrList> initAttrs(const ParamOptions& options, const Dims& shape, const Loc& loc);

/// Adds a parameter or state to a module, in front of its functions.
Item* declareStorage(tg::Module& module, ItemKind kind, const std::string& name, const Type& type,
                     AttrList attrs, const Loc& loc);

/// A type of these extents, or what is wrong with them.
Result<Type> tensorType(DType dtype, const Dims& shape, const Loc& loc);

/// The names of a model's parameters and modules by their nodes.
struct ModelNames {
  std::unordered_map<const void*, std::string> paths;
};

/// While one lives, every operation of this thread is placed at `site`: an operation that is made of
/// others points at its caller. The outermost wins.
class CallSite {
 public:
  explicit CallSite(const Site& site);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  /// `site`, or that of the outermost CallSite.
  static const Site& of(const Site& site);

 private:
  bool outermost_;
};

/// An operation to append.
struct Emission {
  Opcode code;
  std::vector<Arg> operands;
  AttrList attrs = {};
  std::vector<Type> declared = {};  ///< result types where they are free
  std::string hint = {};            ///< names the result when nothing better does
  std::string callee = {};          ///< the symbol of an op that calls one
};

/// An operation of these operands, placed where the first was written.
/// The same for several results.
std::vector<Tensor> makeAll(Opcode code, std::vector<Arg> operands, AttrList attrs, int count);
/// An op whose result type is given: constants, iota, random numbers.
Tensor makeTyped(Opcode code, std::vector<Arg> operands, const Dims& shape, DType dtype, AttrList attrs,
                 const Site& site);
enum class Reduction : uint8_t;
/// A loss of each element, reduced.
Tensor reduced(const Arg& x, Reduction reduction);
/// The error that a variance of `x` cannot have `eps` added before its root, if so.
std::optional<Tensor> refusedEps(std::string_view user, const Arg& x, double eps);
/// An axis counted from the front when it is in range, else as it is, for inference to refuse.
int64_t fromFront(int64_t axis, int rank);

/// Appends to one function. At most one is at work in a thread.
class Recorder {
 public:
  Recorder(tg::Module& module, Item& func, const ModelNames& names);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The one at work in this thread, or null.
  static Recorder* active();

  // Operations. Each is an error outside a trace; an error gives invalid tensors.
  static Tensor emit(const Site& site, Emission op);
  /// The same for several results; `count` invalid ones on error.
  static std::vector<Tensor> emitAll(const Site& site, Emission op, int count);
  /// The same for a tg.custom of this kernel, which the module gets.
  static std::vector<Tensor> call(const Site& site, const Kernel& kernel, Emission op, int count);
  /// A constant: one value for every element, or row-major values.
  static Tensor constant(const Site& site, const std::vector<double>& values, const Dims& shape, DType dtype);
  /// An error at `site`: kept for trace() when there is one, and in the tensor.
  static Tensor fail(const Site& site, std::string message);
  /// The same for the function at work.
  Tensor reject(Error error);
  /// Names a result by the path of the module that made it, unless the author names it.
  static Tensor hinted(const Module& module, const Tensor& tensor);
  /// The value of a parameter in the active function.
  static Tensor read(const ParamNode* param, const Site& site);

  /// An argument of the function; `batch` is an axis or -1, `dims` are names of all axes or none.
  Tensor argument(const Key& name, const Dims& shape, DType dtype, int batch,
                  const std::vector<std::string>& dims);
  /// A parameter or state of the module, declared on first use. One that is there already must have the
  /// same type, and the attributes if any are given; a new one gets `fresh` when none are.
  Tensor storage(ItemKind kind, const Key& name, const Dims& shape, DType dtype,
                 const std::optional<AttrList>& attrs, const AttrList& fresh);
  /// The host's random key, an argument that appears on first use.
  static Tensor key(const Site& site);
  /// 1, 2, … : tells the function's random operations apart.
  int64_t nextSalt() { return ++salts_; }
  /// Gives the value a name of the caller's.
  Tensor name(std::string name, const Tensor& tensor);
  Tensor capture(const Key& name, const Arg& value);
  void update(const Arg& storage, const Arg& value);
  /// A value that the function had before.
  Tensor existing(Value* value) const { return handle(value); }
  /// Ends the function with its results, named, behind those of `before`, the return it had.
  void finish(const std::vector<std::pair<std::string, Tensor>>& results, const Site& site,
              const Op* before = nullptr);
  const Error& errors() const { return errors_; }

 private:
  Tensor handle(Value* value) const;
  /// Adds a kernel and what it needs to the module, unless they are there.
  Result<void> add(const Kernel& kernel, const Loc& loc);
  /// A tensor's value here, or the error that it is not usable.
  Result<Value*> valueOf(const Tensor& tensor, std::string_view user, const Loc& loc) const;
  Result<Value*> number(double number, DType dtype, std::string_view user, const Loc& loc);
  /// A constant of this literal; rank-0 ones are made once.
  Result<Value*> literal(Operand value, const Type& type, const Loc& loc);
  /// The operation's values; an empty error stands for one that is known already.
  std::variant<std::vector<Value*>, Tensor> operandsOf(const Emission& op, const Loc& loc);
  std::vector<Tensor> append(const Loc& loc, Emission op, int count);
  Tensor readStorage(ItemKind kind, const std::string& name, const Type& type, const Loc& loc);
  void readsFirst();
  void nameValues(const std::vector<std::pair<std::string, Tensor>>& results);

  /// What the function has already: what it reads, draws, captures and updates.
  void remember();

  tg::Module& module_;
  Item& func_;
  const ModelNames& names_;
  Builder builder_;
  uint64_t number_;
  size_t firstArg_, firstOp_;  ///< the first ones that are new
  int64_t salts_ = 0;
  Error errors_;
  std::unordered_map<const Value*, std::string> given_;   ///< names by the author
  std::unordered_map<const Value*, std::string> hints_;   ///< names by the path of a module or a parameter
  std::map<std::string, Value*> reads_;                   ///< storage read so far
  std::map<std::pair<uint64_t, DType>, Value*> numbers_;  ///< constants made so far
  std::map<std::string, Loc> captures_;
  std::map<std::string, Loc> updates_;
  Value* key_ = nullptr;
};

}  // namespace tg::nn
