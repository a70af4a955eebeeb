// SPDX-License-Identifier: Apache-2.0
// Def-use chains: every operand of an op is a link in the list of uses of the value it reads.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

namespace tg {

class Op;
struct Value;

/// A place that reads a value. While it belongs to an op it stands in the value's list of uses, however it is
/// assigned, copied, moved or destroyed; a place of no op, such as an operand that waits to be built in,
/// stands in no list. The argument that a binding defines is written in the same place but is no use.
class Use {
 public:
  Use() = default;
  Use(Value* value) : value_(value) {}  ///< implicit, as the conversion back: a use stands for its value
  Use(const Use& other) : value_(other.value_), defines_(other.defines_) {}
  Use(Use&& other) noexcept : value_(other.value_), user_(other.user_), defines_(other.defines_) {
    follow(other);
  }
  ~Use() { unlink(); }
  Use& operator=(const Use& other);
  Use& operator=(Use&& other) noexcept;
  Use& operator=(Value* value);

  Value* get() const { return value_; }
  operator Value*() const { return value_; }
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }

  /// The op that reads, or null.
  Op* user() const { return user_; }
  /// The place belongs to this op from now on, or to none.
  void belongTo(Op* user);
  /// The place defines its value, a block argument, and reads nothing.
  void define(Value* argument);

 private:
  friend class UseList;
  void link();
  void unlink();
  /// Takes the place of `other` in its list; `other` is left without a value.
  void follow(Use& other);

  Value* value_ = nullptr;
  Op* user_ = nullptr;
  Use* next_ = nullptr;
  Use** previous_ = nullptr;  ///< what points here, or null: not in a list
  bool defines_ = false;
};

/// The uses of one value, the newest first.
class UseList {
 public:
  class iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = const Use;
    using difference_type = std::ptrdiff_t;
    using pointer = const Use*;
    using reference = const Use&;
    iterator() = default;
    explicit iterator(const Use* use) : use_(use) {}
    const Use& operator*() const { return *use_; }
    const Use* operator->() const { return use_; }
    iterator& operator++() { return use_ = use_->next_, *this; }
    iterator operator++(int) { return std::exchange(*this, iterator(use_->next_)); }
    bool operator==(const iterator&) const = default;

   private:
    const Use* use_ = nullptr;
  };

  UseList() = default;
  UseList(const UseList&) {}  ///< a copy of a value is not used yet
  UseList& operator=(const UseList&) { return *this; }
  /// What still reads the value reads nothing from now on.
  ~UseList();

  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(); }
  bool empty() const { return !first_; }
  bool hasOne() const { return first_ && !first_->next_; }

  /// All uses read `other` from now on.
  void replaceAll(Value* other);
  /// Uses by `first` and by ops behind it in its list read `other` from now on. Those before it stay, and so
  /// do those in nested regions.
  void replaceFrom(Op& first, Value* other);

 private:
  friend class Use;
  Use* first_ = nullptr;
};

}  // namespace tg
