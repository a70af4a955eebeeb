// SPDX-License-Identifier: Apache-2.0
#include "runtime/runner.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/find.h"
#include "ir/text.h"

namespace tg {

const HostArray* named(const NamedArrays& arrays, std::string_view name) { return secondOf(arrays, name); }

Result<void> checkDuration(std::string_view name, double seconds) {
  if (std::isfinite(seconds)) return {};
  return fail("{} is {}, not a finite number of seconds", name, seconds);
}

Result<void> checkRows(const std::string& name, const Type& type, int64_t first, size_t bytes) {
  const int64_t element = byteSize(type.dtype), row = type.rank() > 1 ? type.shape.back() : 1;
  const int64_t count = static_cast<int64_t>(bytes) / element, all = type.elements();
  const bool whole =
      static_cast<int64_t>(bytes) % element == 0 && (row == 0 || (first % row == 0 && count % row == 0));
  if (whole && first >= 0 && first <= all && count <= all - first) return {};
  return fail("{} bytes from element {} on are not rows of @{}, {}", bytes, first, name, type.str());
}

Result<void> checkBytes(std::string_view function, const std::string& name, const HostView& input) {
  return input.checkBytes(fmt::format("@{}: input '{}'", function, name));
}

Result<void> checkNames(std::string_view function, const std::vector<std::pair<std::string, Type>>& arguments,
                        const InputViews& inputs, const std::set<std::string>& filledIn) {
  std::set<std::string> known;
  for (const auto& [name, type] : arguments) {
    if (!inputs.contains(name) && !filledIn.contains(name))
      return fail("@{}: input '{}' of type {} is missing", function, name, type.str());
    known.insert(name);
  }
  for (const auto& [name, array] : inputs)
    if (!known.contains(name))
      return fail("@{} has no input '{}'; it has {}", function, name,
                  known.empty() ? "none" : listText(arguments, &std::pair<std::string, Type>::first));
  return {};
}

Result<void> checkTypes(std::string_view function, const std::vector<std::pair<std::string, Type>>& arguments,
                        const InputViews& inputs) {
  TG_CHECK(checkNames(function, arguments, inputs));
  for (const auto& [name, type] : arguments) {
    const HostView& given = inputs.at(name);
    if (given.type() != type)
      return fail("@{}: input '{}' is {}, but {} is expected", function, name, given.type().str(),
                  type.str());
  }
  return {};
}

Result<void> checkInputs(std::string_view function,
                         const std::vector<std::pair<std::string, Type>>& arguments,
                         const InputViews& inputs) {
  TG_CHECK(checkTypes(function, arguments, inputs));
  for (const auto& [name, array] : inputs) TG_CHECK(checkBytes(function, name, array));
  return {};
}

}  // namespace tg
