// SPDX-License-Identifier: Apache-2.0
// Tensors by name: their hash, and how those of a file become those a module wants.
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "runtime/data/elements.h"
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

const HostArray* findArray(const NamedArrays& arrays, const std::string& name) {
  auto found = std::find_if(arrays.begin(), arrays.end(), [&](auto& entry) { return entry.first == name; });
  return found == arrays.end() ? nullptr : &found->second;
}

/// The last parts of parameters' names in tensorgrad for TypeScript, and what nn's layers call the same.
struct OtherName {
  std::string_view there, here;
};
constexpr OtherName kTypescriptNames[] = {{"W", "w"}, {"g", "gain"}, {"b", "bias"}};

/// The name in the file for a wanted one: its own, or the one that library gives it.
std::string nameInFile(const NamedArrays& file, const std::string& wanted) {
  if (findArray(file, wanted)) return wanted;
  const size_t last = wanted.rfind('.') + 1;  // 0 without a dot
  for (const OtherName& row : kTypescriptNames)
    if (std::string_view(wanted).substr(last) == row.here) {
      std::string there = wanted.substr(0, last) + std::string(row.there);
      if (findArray(file, there)) return there;
    }
  return wanted;
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
  std::set<std::string> taken;
  for (const auto& [name, type] : wanted) {
    const std::string given = nameInFile(file, name);
    const HostArray* array = findArray(file, given);
    HostArray shaped;
    taken.insert(given);
    // That library's arrays are flat.
    if (array && given != name && array->shape.rank() == 1 && array->elements() == type.elements()) {
      shaped = *array;
      shaped.shape = type.shape;
      array = &shaped;
    }
    if (!array) {
      wrong += fmt::format("\n  missing: {} {}", name, type.str());
    } else if (array->shape != type.shape) {
      wrong += fmt::format("\n  shape: {} is {}, expected {}", name, array->type().str(), type.str());
    } else if (auto value = convertedTo(*array, type.dtype); !value) {
      wrong += fmt::format("\n  type: {} is {}, expected {}: {}", name, array->type().str(), type.str(),
                           value.error().message());
    } else {
      matched.emplace_back(name, std::move(*value));
    }
  }
  for (const auto& [name, array] : file)
    if (!taken.contains(name)) wrong += fmt::format("\n  not wanted: {} {}", name, array.type().str());
  if (!wrong.empty()) return fail(fmt::format("{}: the tensors do not fit the module:{}", where, wrong));
  return matched;
}

}  // namespace tg
