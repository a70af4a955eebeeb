// SPDX-License-Identifier: Apache-2.0
// Internals of the front end: the function that is being traced, and how operations are appended to it.
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

/// The attributes that declare a parameter: its init, or the values that its init makes.
Result<AttrList> initAttrs(const ParamOptions& options, const Dims& shape, const Loc& loc);

/// Adds a parameter or state to a module, before its functions.
Item* declareStorage(tg::Module& module, ItemKind kind, const std::string& name, const Type& type,
                     AttrList attrs, const Loc& loc);

/// A type with these extents, or the error in them.
Result<Type> tensorType(DType dtype, const Dims& shape, const Loc& loc);

/// The names of a model's parameters and modules, by node.
struct ModelNames {
  std::unordered_map<const void*, std::string> paths;
};

/// During its lifetime every operation of this thread is located at `site`, so that an operation composed of others
/// has the location of its caller. The outermost one wins.
class CallSite {
 public:
  explicit CallSite(const Site& site);
  ~CallSite();
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  /// The site of the outermost CallSite; without one, `site`.
  static const Site& of(const Site& site);

 private:
  bool outermost_;
};

/// An operation to be appended.
struct Emission {
  Opcode code;
  std::vector<Arg> operands;
  AttrList attrs = {};
  std::vector<Type> declared = {};  ///< result types, for ops whose types are free
  std::string hint = {};            ///< name of the result if nothing else names it
  std::string callee = {};          ///< the symbol, for an op that calls one
};

/// An operation with several results, located where the first operand was written.
std::vector<Tensor> makeAll(Opcode code, std::vector<Arg> operands, AttrList attrs, int count);
/// An op whose result type is given: constants, iota, random numbers.
Tensor makeTyped(Opcode code, std::vector<Arg> operands, const Dims& shape, DType dtype, AttrList attrs,
                 const Site& site);
enum class Reduction : uint8_t;
/// Reduces a loss of each element.
Tensor reduced(const Arg& x, Reduction reduction);
/// The error that `eps` cannot be added to a variance of `x` before its root, if so.
std::optional<Tensor> refusedEps(std::string_view user, const Arg& x, double eps);
/// An axis counted from the front if it is in range; else unchanged, so that inference rejects it.
int64_t fromFront(int64_t axis, int rank);

/// Traces into one function. At most one is active in a thread.
class Recorder {
 public:
  Recorder(tg::Module& module, Item& func, const ModelNames& names);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The active one of this thread, or null.
  static Recorder* active();

  // Operations. Outside a trace each is an error; errors give invalid tensors.
  static Tensor emit(const Site& site, Emission op);
  /// The same for several results; `count` invalid ones on error.
  static std::vector<Tensor> emitAll(const Site& site, Emission op, int count);
  /// The same for a tg.custom of this kernel, which is added to the module.
  static std::vector<Tensor> call(const Site& site, const Kernel& kernel, Emission op, int count);
  /// A constant: one value for every element, or row-major values.
  static Tensor constant(const Site& site, const std::vector<double>& values, const Dims& shape, DType dtype);
  /// An error at `site`: recorded for the trace in progress, if any, and in the tensor returned.
  static Tensor fail(const Site& site, std::string message);
  template <class First, class... Rest>
  static Tensor fail(const Site& site, fmt::format_string<First, Rest...> format, First&& first,
                     Rest&&... rest) {
    return fail(site, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  /// The same for this trace.
  Tensor reject(Error error);
  /// Names a result by the path of the module that computed it, unless the author names it.
  static Tensor hinted(const Module& module, const Tensor& tensor);
  /// The value of a parameter in the active function.
  static Tensor read(const ParamNode* param, const Site& site);

  /// An argument of the function; `batch` is an axis or -1, `dims` names all axes or is empty.
  Tensor argument(const Key& name, const Dims& shape, DType dtype, int batch,
                  const std::vector<std::string>& dims);
  /// A parameter or state of the module, declared on first use. An existing one must have the same type, and the same
  /// attributes if any are given; a new one without `attrs` gets `fresh`.
  Tensor storage(ItemKind kind, const Key& name, const Dims& shape, DType dtype,
                 const std::optional<AttrList>& attrs, const AttrList& fresh);
  /// The host's random key, an argument that is added on first use.
  static Tensor key(const Site& site);
  /// 1, 2, …: distinguishes the function's random operations.
  int64_t nextSalt() { return ++salts_; }
  /// Gives the value a name chosen by the author.
  Tensor name(std::string name, const Tensor& tensor);
  Tensor capture(const Key& name, const Arg& value);
  void update(const Arg& storage, const Arg& value);
  /// The tensor of a value that the function had before tracing.
  Tensor existing(Value* value) const { return handle(value); }
  /// Ends the function: returns its results, with names, after those of `before`, the return it had.
  void finish(const std::vector<std::pair<std::string, Tensor>>& results, const Site& site,
              const Op* before = nullptr);
  const Error& errors() const { return errors_; }

 private:
  Tensor handle(Value* value) const;
  /// Adds a kernel and the items that it needs to the module, unless they are there.
  Result<void> add(const Kernel& kernel, const Loc& loc);
  /// A tensor's value in this function, or the error that it cannot be used.
  Result<Value*> valueOf(const Tensor& tensor, std::string_view user, const Loc& loc) const;
  Result<Value*> number(double number, DType dtype, std::string_view user, const Loc& loc);
  /// A constant with this value; equal ones of rank 0 are shared.
  Result<Value*> literal(Operand value, const Type& type, const Loc& loc);
  /// The operation's operands, or an invalid tensor: the operand whose error was reported before, or a new error.
  std::variant<std::vector<Value*>, Tensor> operandsOf(const Emission& op, const Loc& loc);
  std::vector<Tensor> append(const Loc& loc, Emission op, int count);
  Tensor readStorage(ItemKind kind, const std::string& name, const Type& type, const Loc& loc);
  void readsFirst();
  void nameValues(const std::vector<std::pair<std::string, Tensor>>& results);

  /// Records what the function contains already: its reads, random operations, captures and updates.
  void remember();

  tg::Module& module_;
  Item& func_;
  const ModelNames& names_;
  Builder builder_;
  uint64_t number_;
  size_t firstArg_, firstOp_;  ///< the first arguments and ops that this trace adds
  int64_t salts_ = 0;
  Error errors_;
  std::unordered_map<const Value*, std::string> given_;   ///< names chosen by the author
  std::unordered_map<const Value*, std::string> hints_;   ///< names from the path of a module or a parameter
  std::map<std::string, Value*> reads_;                   ///< parameters and states read so far
  std::map<std::pair<uint64_t, DType>, Value*> numbers_;  ///< constants made so far
  std::map<std::string, Loc> captures_;
  std::map<std::string, Loc> updates_;
  Value* key_ = nullptr;
};

}  // namespace tg::nn
