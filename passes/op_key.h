// A text for what an op computes, so that equal ops can be found.
#pragma once

#include <string>
#include <unordered_map>

#include "ir/module.h"

namespace tg {

/// Numbers values in the order they are first seen, so that keys do not depend on addresses.
class ValueNumbering {
 public:
  size_t of(const Value* value) { return numbers_.try_emplace(value, numbers_.size()).first->second; }

 private:
  std::unordered_map<const Value*, size_t> numbers_;
};

/// Equal exactly for ops without regions that compute the same: name, operands, attributes, result types. The
/// operands of a commutative op may stand in either order.
std::string keyOf(const Op& op, ValueNumbering& numbers);

}  // namespace tg
