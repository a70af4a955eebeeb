// SPDX-License-Identifier: Apache-2.0
// Def-use chains: every operand of an op is linked into the list of uses of the value that it reads.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

namespace tg {

class Op;
struct Value;

/// A place that reads a value. While it belongs to an op it is in the value's list of uses, and stays there however
/// it is assigned, copied, moved or destroyed. A place that belongs to no op, such as an operand that is not built in
/// yet, is in no list. The argument that a binding defines is stored in a Use as well, but is no use.
class Use {
 public:
  Use() = default;
  Use(Value* value) : value_(value) {}  ///< implicit in both directions: a use stands for its value
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

  /// The op that the use belongs to, or null.
  Op* user() const { return user_; }
  /// From now on the use belongs to this op; null: to none.
  void belongTo(Op* user);
  /// From now on the place defines its value, a block argument, and is no use.
  void define(Value* argument);

 private:
  friend class UseList;
  void link();
  void unlink();
  /// Takes the position of `other` in its list; `other` is left without a value.
  void follow(Use& other);

  Value* value_ = nullptr;
  Op* user_ = nullptr;
  Use* next_ = nullptr;
  Use** previous_ = nullptr;  ///< the pointer that points to this use; null: in no list
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
  UseList(const UseList&) {}  ///< a copy of a value has no uses yet
  UseList& operator=(const UseList&) { return *this; }
  /// Remaining uses become null.
  ~UseList();

  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(); }
  bool empty() const { return !first_; }
  bool hasOne() const { return first_ && !first_->next_; }

  /// Makes all uses read `other`.
  void replaceAll(Value* other);
  /// Makes the uses by `first` and by later ops of its list read `other`. Those of earlier ops stay, and so do those
  /// in nested regions.
  void replaceFrom(Op& first, Value* other);

 private:
  friend class Use;
  Use* first_ = nullptr;
};

}  // namespace tg
