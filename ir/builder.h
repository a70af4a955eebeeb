// SPDX-License-Identifier: Apache-2.0
// Builds ops at a place of a block, inferring their types and giving unique names.
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

/// Names taken in one function or kernel. A pass makes a fresh one, so that names depend only on
/// the text that came in: `hint`, else `hint_2`, `hint_3`, … whichever is free first.
class NameTable {
 public:
  NameTable() : memory_(std::make_unique<std::pmr::monotonic_buffer_resource>()), taken_(memory_.get()) {}
  /// With the names of all values of a block, or of an item's body.
  explicit NameTable(const Block& block) : NameTable() { takeAll(block); }
  explicit NameTable(const Item& item) : NameTable(item.body) {}
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = delete;
  /// Takes the names of all values of a block.
  void takeAll(const Block& block);
  std::string unique(std::string_view hint);
  void take(std::string_view name) { taken_.emplace(name, kFirst); }

 private:
  static constexpr int kFirst = 2;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;  ///< names come, and all go together
  /// With each name the number to try first when it is asked for again.
  std::pmr::unordered_map<std::pmr::string, int, NameHash, std::equal_to<>> taken_;
};

/// Builds ops at a place that moves with setEnd and setBefore.
class Builder {
 public:
  /// Builds at the end of `item`'s body. `module` resolves symbols.
  Builder(Module* module, Item* item) : Builder(item->body, module) {}
  /// Builds at the end of a block, with names that stand apart from those in it.
  explicit Builder(Block& body, Module* module = nullptr)
      : module_(module), ops_(&body.ops), own_(body), names_(&own_) {}
  /// Builds at the end of a list, with names of this table; without one, names stand apart from those that
  /// this builder gave, and the first of a hint is the hint.
  explicit Builder(OpList& ops, NameTable* names = nullptr) : ops_(&ops), names_(names ? names : &own_) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  OpList& ops() const { return *ops_; }
  /// Ops go to the end of this list from now on.
  Builder& setEnd(OpList& ops) { return ops_ = &ops, before_ = nullptr, *this; }
  /// Ops go in front of this op from now on; null: to the end of the list.
  Builder& setBefore(Op* op) { return ops_ = op ? op->list() : ops_, before_ = op, *this; }
  /// Location and name hint of the ops built next; an empty hint falls back to the op's name.
  Builder& setLoc(Loc loc) { return loc_ = std::move(loc), *this; }
  Builder& setHint(std::string hint) { return hint_ = std::move(hint), *this; }
  const Loc& loc() const { return loc_; }
  NameTable& names() { return *names_; }
  Module* module() const { return module_; }

  /// Builds an op. `declared` gives the result types where they are free. An op that does not
  /// infer is a broken invariant of the caller.
  Op* create(Opcode code, OperandList operands, AttrList attrs = {}, std::vector<Type> declared = {});
  /// The same for what people write: an error where the op has another form or does not infer.
  Result<Op*> tryCreate(Opcode code, OperandList operands, AttrList attrs = {},
                        std::vector<Type> declared = {});
  /// The same as create for an op with value operands, returning its first result (null without one).
  Value* op(Opcode code, const std::vector<Value*>& operands, AttrList attrs = {},
            std::vector<Type> declared = {});
  /// A finished op made elsewhere; names of its results are made unique.
  Op* append(std::unique_ptr<Op> op);

  // Tensor shorthands.
  Value* constant(double value, Type type);
  Value* scalar(double value) { return constant(value, Type::tensor(DType::f32, {})); }
  Value* binary(Opcode code, Value* a, Value* b) { return op(code, {a, b}); }
  Value* sum(Value* x, std::vector<int64_t> axes, bool keepdims = false);
  Value* reduce(Opcode code, Value* x, std::vector<int64_t> axes, bool keepdims);
  Value* reshape(Value* x, const Shape& shape);
  Value* broadcastTo(Value* x, const Shape& shape);
  Value* transpose(Value* x, std::vector<int64_t> perm);
  Value* cast(Value* x, DType dtype);
  /// Sums x down to `shape`, undoing a broadcast.
  Value* sumTo(Value* x, const Shape& shape);

 private:
  std::unique_ptr<Op> untyped(Opcode code, OperandList operands, AttrList attrs,
                              const std::vector<Type>& declared) const;
  Op* typed(std::unique_ptr<Op> op, const std::vector<Type>& types);

  Module* module_ = nullptr;
  OpList* ops_;
  Op* before_ = nullptr;
  NameTable own_;
  NameTable* names_;  ///< own_, or another's
  Loc loc_;
  std::string hint_;
};

/// Emits the primitives a composite stands for into the builder's block and returns its results.
/// `operands` replaces the op's own value operands (same order, missing optional ones left out).
std::vector<Value*> decompose(const Op& op, const std::vector<Value*>& operands, Builder& builder);

/// Copies an op with operands replaced through `map` (values not in it stay), nested regions
/// included. Result names are taken as they are; the caller makes them unique by Builder::append.
std::unique_ptr<Op> cloneOp(const Op& op, std::unordered_map<const Value*, Value*>& map);

/// A deep copy of an item. Names, locations and attributes stay.
std::unique_ptr<Item> cloneItem(const Item& item);

}  // namespace tg
