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

template <class Arrays>
auto findArray(Arrays& arrays, const std::string& name) {
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

struct TensorHash::State {
  XXH3_state_t* hash = XXH3_createState();
  /// Of the list being read: tensors, and how many of them were begun.
  std::vector<std::pair<std::string, Type>> tensors;
  size_t begun = 0;

  State() { XXH3_64bits_reset(hash); }
  ~State() { XXH3_freeState(hash); }
  void add(const void* bytes, size_t count) { XXH3_64bits_update(hash, bytes, count); }
  void add(const std::string& text) {
    const uint64_t size = text.size();  // so that no two lists of texts give the same bytes
    add(&size, sizeof(size));
    add(text.data(), text.size());
  }
  /// Adds what stands before the bytes of the tensors up to `end`. Those without elements are never read.
  void begin(size_t end) {
    for (; begun < end; ++begun) {
      add(tensors[begun].first);
      add(tensors[begun].second.str());
    }
  }
};

TensorHash::TensorHash() : state_(std::make_unique<State>()) {}
TensorHash::~TensorHash() = default;

TensorSource TensorHash::hashed(TensorSource source) {
  state_->begin(state_->tensors.size());
  state_->tensors = source.tensors;
  state_->begun = 0;
  const uint64_t count = source.tensors.size();
  state_->add(&count, sizeof(count));
  TensorSource out;
  out.tensors = source.tensors;
  out.read = [state = state_.get(), read = std::move(source.read)](
                 size_t tensor, int64_t first, std::span<std::byte> piece) -> Result<void> {
    TG_CHECK(read(tensor, first, piece));
    state->begin(tensor + 1);
    state->add(piece.data(), piece.size());
    return {};
  };
  return out;
}

std::string TensorHash::digest() {
  state_->begin(state_->tensors.size());
  return fmt::format("{:016x}", XXH3_64bits_digest(state_->hash));
}

std::string stateHash(const NamedArrays& params, const NamedArrays& states) {
  TensorHash hash;
  for (const NamedArrays* arrays : {&params, &states})
    (void)eachPieceOf(hash.hashed(sourceOf(*arrays)),
                      [](size_t, int64_t, std::span<const std::byte>) { return Result<void>(); });
  return hash.digest();
}

Result<NamedArrays> matchTensors(NamedArrays file, const std::vector<std::pair<std::string, Type>>& wanted,
                                 const std::string& where) {
  NamedArrays matched;
  std::string wrong;
  std::set<std::string> taken;
  for (const auto& [name, type] : wanted) {
    const std::string given = nameInFile(file, name);
    HostArray* array = findArray(file, given);
    taken.insert(given);
    // That library's arrays are flat.
    if (array && given != name && array->shape.rank() == 1 && array->elements() == type.elements())
      array->shape = type.shape;
    if (!array) {
      wrong += fmt::format("\n  missing: {} {}", name, type.str());
    } else if (array->shape != type.shape) {
      wrong += fmt::format("\n  shape: {} is {}, expected {}", name, array->type().str(), type.str());
    } else if (array->dtype == type.dtype) {
      matched.emplace_back(name, HostArray{type.dtype, type.shape, std::exchange(array->bytes, {})});
    } else if (auto value = convertedTo(*array, type.dtype); !value) {
      wrong += fmt::format("\n  type: {} is {}, expected {}: {}", name, array->type().str(), type.str(),
                           value.error().message());
    } else {
      matched.emplace_back(name, std::move(*value));
      array->bytes = {};
    }
  }
  for (const auto& [name, array] : file)
    if (!taken.contains(name)) wrong += fmt::format("\n  not wanted: {} {}", name, array.type().str());
  if (!wrong.empty()) return fail(fmt::format("{}: the tensors do not fit the module:{}", where, wrong));
  return matched;
}

}  // namespace tg
