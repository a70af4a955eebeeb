// SPDX-License-Identifier: Apache-2.0
// Builds ops at an insertion point in a block, infers their types and gives unique names.
#pragma once

#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The names in use in one function or kernel. New names depend only on the input text: `hint`, else `hint_2`,
/// `hint_3`, … whichever is free first.
class NameTable {
 public:
  NameTable() : memory_(std::make_unique<std::pmr::monotonic_buffer_resource>()), taken_(memory_.get()) {}
  /// Starts with the names of all values of a block, or of an item's body.
  explicit NameTable(const Block& block) : NameTable() { takeAll(block); }
  explicit NameTable(const Item& item) : NameTable(item.body) {}
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = delete;
  /// Adds the names of all values of a block.
  void takeAll(const Block& block);
  /// Returns a free name made from the hint, and marks it as used.
  std::string unique(std::string_view hint);
  void take(std::string_view name) { taken_.emplace(name, kFirst); }

 private:
  static constexpr int kFirst = 2;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;  ///< of names; freed all at once
  /// For each name, the number to try first when it is asked for again.
  std::pmr::unordered_map<std::pmr::string, int, NameHash, std::equal_to<>> taken_;
};

/// Builds ops at an insertion point that setEnd and setBefore move.
class Builder {
 public:
  /// Builds at the end of `item`'s body. `module` resolves symbols.
  Builder(Module* module, Item* item) : Builder(item->body, module) {}
  /// Builds at the end of a block, with names that differ from those in it.
  explicit Builder(Block& body, Module* module = nullptr)
      : module_(module), ops_(&body.ops), own_(body), names_(&own_) {}
  /// Builds at the end of a list, with names from `names`. Without a table, names differ only from those that this
  /// builder gave, and the first value of a hint is named by the hint itself.
  explicit Builder(OpList& ops, NameTable* names = nullptr) : ops_(&ops), names_(names ? names : &own_) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  OpList& ops() const { return *ops_; }
  /// From now on ops are appended to this list.
  Builder& setEnd(OpList& ops) { return ops_ = &ops, before_ = nullptr, *this; }
  /// From now on ops are inserted before this op; null: at the end of the list.
  Builder& setBefore(Op* op) { return ops_ = op ? op->list() : ops_, before_ = op, *this; }
  /// Location and name hint of the ops built next; without a hint a value is named after the op.
  Builder& setLoc(Loc loc) { return loc_ = std::move(loc), *this; }
  Builder& setHint(std::string hint) { return hint_ = std::move(hint), *this; }
  const Loc& loc() const { return loc_; }
  NameTable& names() { return *names_; }
  Module* module() const { return module_; }

  /// Builds an op. `declared` gives the result types of ops whose types are free. The op must pass inference: the
  /// caller guarantees it.
  Op* create(Opcode code, OperandList operands, AttrList attrs = {}, std::vector<Type> declared = {});
  /// The same for input from users: an error if the op is malformed or does not pass inference.
  Result<Op*> tryCreate(Opcode code, OperandList operands, AttrList attrs = {},
                        std::vector<Type> declared = {});
  /// The same as create for an op whose operands are values; returns its first result (null without one).
  Value* op(Opcode code, const std::vector<Value*>& operands, AttrList attrs = {},
            std::vector<Type> declared = {});
  /// Inserts a finished op; its results are given unique names.
  Op* append(std::unique_ptr<Op> op);

  // Tensor shorthands.
  Value* constant(double value, Type type);
  Value* scalar(double value, DType dtype = DType::f32) { return constant(value, Type::tensor(dtype, {})); }
  Value* binary(Opcode code, Value* a, Value* b) { return op(code, {a, b}); }
  Value* sum(Value* x, std::vector<int64_t> axes, bool keepdims = false);
  Value* reduce(Opcode code, Value* x, std::vector<int64_t> axes, bool keepdims);
  Value* reshape(Value* x, const Shape& shape);
  Value* broadcastTo(Value* x, const Shape& shape);
  Value* transpose(Value* x, std::vector<int64_t> perm);
  /// x[starts : limits : strides], or x itself if that is all of it. Without strides they are 1.
  Value* slice(Value* x, const std::vector<int64_t>& starts, const std::vector<int64_t>& limits,
               std::vector<int64_t> strides = {});
  /// The elements from `from` up to `to` along an axis.
  Value* part(Value* x, int axis, int64_t from, int64_t to);
  /// x with elements of `value` around it and, if `interior` is given, between its elements; x itself if there are none.
  Value* pad(Value* x, const std::vector<int64_t>& low, const std::vector<int64_t>& high, double value = 0,
             std::vector<int64_t> interior = {});
  Value* cast(Value* x, DType dtype);
  /// Sums x down to `shape`: the reverse of a broadcast.
  Value* sumTo(Value* x, const Shape& shape);

 private:
  std::unique_ptr<Op> untyped(Opcode code, OperandList operands, AttrList attrs,
                              const std::vector<Type>& declared) const;
  Op* typed(std::unique_ptr<Op> op, const std::vector<Type>& types);

  Module* module_ = nullptr;
  OpList* ops_;
  Op* before_ = nullptr;
  NameTable own_;
  NameTable* names_;  ///< own_, or a table of the caller
  Loc loc_;
  std::string hint_;
};

/// Emits the decomposition of a composite into primitives and returns its results. `operands` replaces the op's own
/// value operands (same order, without missing optional ones).
std::vector<Value*> decompose(const Op& op, const std::vector<Value*>& operands, Builder& builder);

/// Copies an op and its nested regions, with operands replaced through `map` (values that it lacks stay). Result
/// names are copied; the caller makes them unique by Builder::append.
std::unique_ptr<Op> cloneOp(const Op& op, std::unordered_map<const Value*, Value*>& map);

/// A deep copy of an item, with names, locations and attributes.
std::unique_ptr<Item> cloneItem(const Item& item);

}  // namespace tg
