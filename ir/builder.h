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
  explicit NameTable(const Item& item);
  NameTable(NameTable&&) = default;
  NameTable& operator=(NameTable&&) = delete;
  /// Takes the names of all values of an item.
  void takeAll(const Item& item);
  std::string unique(std::string_view hint);
  void take(std::string_view name) { taken_.emplace(name, kFirst); }

 private:
  static constexpr int kFirst = 2;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;  ///< names come, and all go together
  /// With each name the number to try first when it is asked for again.
  std::pmr::unordered_map<std::pmr::string, int, NameHash, std::equal_to<>> taken_;
};

class Builder {
 public:
  /// Builds into `item`'s body (or another block of it, see setBlock). `module` resolves symbols.
  Builder(Module* module, Item* item);

  Block* block() const { return block_; }
  /// Ops go to the end of this block from now on.
  void setBlock(Block* block) { block_ = block, before_ = nullptr; }
  /// Ops go in front of this op of the block from now on; null: to its end.
  void setBefore(Op* op) { before_ = op; }
  /// Location and name hint of the ops built next; an empty hint falls back to the op's name.
  void setLoc(Loc loc) { loc_ = std::move(loc); }
  void setHint(std::string hint) { hint_ = std::move(hint); }
  const Loc& loc() const { return loc_; }
  NameTable& names() { return names_; }
  Module* module() const { return module_; }
  Item* item() const { return item_; }

  /// Appends an op. `declared` gives the result types where they are free. An op that does not
  /// infer is a broken invariant of the caller.
  Op* create(Opcode code, OperandList operands, AttrList attrs = {}, std::vector<Type> declared = {});
  /// The same for an op with value operands, returning its first result (null without one).
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
  Module* module_;
  Item* item_;
  Block* block_;
  Op* before_ = nullptr;
  NameTable names_;
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
