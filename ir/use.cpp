// SPDX-License-Identifier: Apache-2.0
#include "ir/use.h"

#include "ir/module.h"

namespace tg {

Use& Use::operator=(const Use& other) {
  if (this == &other) return *this;
  unlink();
  value_ = other.value_;
  defines_ = other.defines_;
  link();
  return *this;
}

Use& Use::operator=(Use&& other) noexcept {
  if (this == &other) return *this;
  *this = std::as_const(other);
  other.unlink();
  other.value_ = nullptr;
  return *this;
}

Use& Use::operator=(Value* value) {
  unlink();
  value_ = value;
  link();
  return *this;
}

void Use::belongTo(Op* user) {
  unlink();
  user_ = user;
  link();
}

void Use::define(Value* argument) {
  unlink();
  defines_ = true;
  value_ = argument;
}

void Use::link() {
  if (!value_ || !user_ || defines_) return;
  Use*& first = value_->uses.first_;
  next_ = first;
  if (next_) next_->previous_ = &next_;
  previous_ = &first;
  first = this;
}

void Use::unlink() {
  if (!previous_) return;
  *previous_ = next_;
  if (next_) next_->previous_ = previous_;
  previous_ = nullptr;
  next_ = nullptr;
}

void Use::follow(Use& other) {
  next_ = std::exchange(other.next_, nullptr);
  previous_ = std::exchange(other.previous_, nullptr);
  if (previous_) *previous_ = this;
  if (next_) next_->previous_ = &next_;
  other.value_ = nullptr;
}

UseList::~UseList() {
  while (Use* use = first_) {
    use->unlink();
    use->value_ = nullptr;
  }
}

void UseList::replaceFrom(Op& first, Value* other) {
  if (!first_) return;
  const Value* value = first_->value_;
  for (Op* op = &first; op; op = op->next())
    forEachUse(*op, [&](Value*& read) {
      if (read == value) read = other;
    });
}

void UseList::replaceAll(Value* other) {
  if (first_ && first_->value_ == other) return;
  while (Use* use = first_) *use = other;
}

}  // namespace tg
