// SPDX-License-Identifier: Apache-2.0
// Tensors by name: their hash, and how those of a file become those a module wants.
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "runtime/train/checkpoint.h"

namespace tg {

namespace {

void add(XXH3_state_t* hash, const std::string& text) {
  const uint64_t size = text.size();  // so that no two lists of texts give the same bytes
  XXH3_64bits_update(hash, &size, sizeof(size));
  XXH3_64bits_update(hash, text.data(), text.size());
}

void add(XXH3_state_t* hash, const NamedArrays& arrays) {
  const uint64_t count = arrays.size();
  XXH3_64bits_update(hash, &count, sizeof(count));
  for (const auto& [name, array] : arrays) {
    add(hash, name);
    add(hash, array.type().str());
    XXH3_64bits_update(hash, array.bytes.data(), array.bytes.size());
  }
}

/// Every element as `dtype`, or why one cannot be.
Result<HostArray> converted(const HostArray& from, DType dtype) {
  if (from.dtype == dtype) return from;
  if (isFloat(from.dtype) != isFloat(dtype)) return fail("it is of another type");
  HostArray to = HostArray::zeros(dtype, from.shape);
  for (int64_t i = 0; i < from.elements(); ++i) {
    const double value = from.at(i);
    to.set(i, value);
    if (!isFloat(dtype) && to.at(i) != value)
      return fail(fmt::format("element {} is {}, which does not fit", i, value));
    if (isFloat(dtype) && std::isfinite(value) && !std::isfinite(to.at(i)))
      return fail(fmt::format("element {} is {}, which does not fit", i, value));
  }
  return to;
}

const HostArray* findArray(const NamedArrays& arrays, const std::string& name) {
  auto found = std::find_if(arrays.begin(), arrays.end(), [&](auto& entry) { return entry.first == name; });
  return found == arrays.end() ? nullptr : &found->second;
}

}  // namespace

std::string stateHash(const NamedArrays& params, const NamedArrays& states) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  add(hash.get(), params);
  add(hash.get(), states);
  return fmt::format("{:016x}", XXH3_64bits_digest(hash.get()));
}

Result<NamedArrays> matchTensors(const NamedArrays& file,
                                 const std::vector<std::pair<std::string, Type>>& wanted,
                                 const std::string& where) {
  NamedArrays matched;
  std::string wrong;
  for (const auto& [name, type] : wanted) {
    const HostArray* array = findArray(file, name);
    if (!array) {
      wrong += fmt::format("\n  missing: {} {}", name, type.str());
    } else if (array->shape != type.shape) {
      wrong += fmt::format("\n  shape: {} is {}, expected {}", name, array->type().str(), type.str());
    } else if (auto value = converted(*array, type.dtype); !value) {
      wrong += fmt::format("\n  type: {} is {}, expected {}: {}", name, array->type().str(), type.str(),
                           value.error().message());
    } else {
      matched.emplace_back(name, std::move(*value));
    }
  }
  for (const auto& [name, array] : file)
    if (std::none_of(wanted.begin(), wanted.end(), [&](auto& entry) { return entry.first == name; }))
      wrong += fmt::format("\n  not wanted: {} {}", name, array.type().str());
  if (!wrong.empty()) return fail(fmt::format("{}: the tensors do not fit the module:{}", where, wrong));
  return matched;
}

}  // namespace tg
