// SPDX-License-Identifier: Apache-2.0
#include "runtime/captures.h"

#include <algorithm>

#include "ir/text.h"

namespace tg {

Captures::Captures(std::string function, std::map<std::string, Type, std::less<>> registered,
                   NamedArrays read)
    : function_(std::move(function)), registered_(std::move(registered)) {
  for (auto& [name, array] : read) read_.emplace(std::move(name), std::move(array));
}

Error Captures::unknown(std::string_view name) const {
  if (registered_.empty())
    return fail("@{} has no capture '{}'; it has none: mark the value with tg.capture", function_, name);
  return fail("@{} has no capture '{}'; it has {}", function_, name, keysText(registered_));
}

Result<HostArray> Captures::get(std::string_view name) const {
  if (auto found = read_.find(name); found != read_.end()) return found->second;
  if (!registered_.contains(name)) return unknown(name);
  return fail("this call did not read capture '{0}' of @{1}; it read {2}: name '{0}' in the call", name,
              function_, read_.empty() ? "none" : keysText(read_));
}

Result<Shape> Captures::shape(std::string_view name) const {
  if (auto found = registered_.find(name); found != registered_.end()) return found->second.shape;
  return unknown(name);
}

std::vector<std::string> Captures::names() const {
  std::vector<std::string> out;
  for (const auto& [name, array] : read_) out.push_back(name);
  return out;
}

Result<std::vector<HostArray>> Captures::perHead(std::string_view name) const {
  TG_TRY(HostArray all, get(name));
  const Shape& shape = all.shape;
  int first = shape.rank() > 2 && shape[0] == 1 ? 1 : 0;
  if (shape.rank() < first + 2)
    return fail("capture '{}' is {}; heads are the first axis of [heads, …] or [1, heads, …]", name,
                all.type().str());
  Shape one;
  for (int axis = first + 1; axis < shape.rank(); ++axis) one.push(shape[axis]);
  std::vector<HostArray> heads;
  for (int64_t head = 0; head < shape[first]; ++head) {
    HostArray part = HostArray::zeros(all.dtype, one);
    auto size = static_cast<std::ptrdiff_t>(part.bytes.size());
    std::copy_n(all.bytes.begin() + head * size, size, part.bytes.begin());
    heads.push_back(std::move(part));
  }
  return heads;
}

}  // namespace tg
