// SPDX-License-Identifier: Apache-2.0
#include "runtime/runner.h"

#include <fmt/format.h>

namespace tg {

const HostArray* RunOutputs::result(std::string_view name) const {
  for (const auto& [own, array] : results)
    if (own == name) return &array;
  return nullptr;
}

Result<void> checkRows(const std::string& name, const Type& type, int64_t first, size_t bytes) {
  const int64_t element = byteSize(type.dtype), row = type.rank() > 1 ? type.shape.back() : 1;
  const int64_t count = static_cast<int64_t>(bytes) / element, all = type.elements();
  const bool whole =
      static_cast<int64_t>(bytes) % element == 0 && (row == 0 || (first % row == 0 && count % row == 0));
  if (whole && first >= 0 && first <= all && count <= all - first) return {};
  return fail(
      fmt::format("{} bytes from element {} on are not rows of @{}, {}", bytes, first, name, type.str()));
}

Result<void> checkBytes(std::string_view function, const std::string& name, const HostArray& input) {
  return input.checkBytes(fmt::format("@{}: input '{}'", function, name));
}

Result<void> checkInputs(std::string_view function,
                         const std::vector<std::pair<std::string, Type>>& arguments, const Inputs& inputs) {
  for (const auto& [name, type] : arguments) {
    auto given = inputs.find(name);
    if (given == inputs.end())
      return fail(fmt::format("@{}: input '{}' of type {} is missing", function, name, type.str()));
    if (given->second.type() != type)
      return fail(fmt::format("@{}: input '{}' is {}, but {} is expected", function, name,
                              given->second.type().str(), type.str()));
    TG_CHECK(checkBytes(function, name, given->second));
  }
  for (const auto& [name, array] : inputs) {
    std::string known;
    bool found = false;
    for (const auto& [own, type] : arguments) {
      found = found || own == name;
      known += (known.empty() ? "" : ", ") + own;
    }
    if (!found)
      return fail(
          fmt::format("@{} has no input '{}'; it has {}", function, name, known.empty() ? "none" : known));
  }
  return {};
}

}  // namespace tg
