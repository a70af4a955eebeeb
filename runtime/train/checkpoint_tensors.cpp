// SPDX-License-Identifier: Apache-2.0
// Tensors by name: their hash, and the conversion of a file's tensors to those of a module.
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "runtime/data/elements.h"
#include "runtime/train/checkpoint.h"

namespace tg {

namespace {

using NamedTypes = std::vector<std::pair<std::string, Type>>;

const std::pair<std::string, Type>* findTensor(const NamedTypes& tensors, const std::string& name) {
  auto found = std::ranges::find_if(tensors, [&](auto& entry) { return entry.first == name; });
  return found == tensors.end() ? nullptr : &*found;
}

/// The last parts of parameter names in tensorgrad for TypeScript, and the names that nn's layers use instead.
struct OtherName {
  std::string_view there, here;
};
constexpr OtherName kTypescriptNames[] = {{"W", "w"}, {"g", "gain"}, {"b", "bias"}};

}  // namespace

std::string nameInFile(const std::vector<std::pair<std::string, Type>>& file, const std::string& wanted) {
  if (findTensor(file, wanted)) return wanted;
  const size_t last = wanted.rfind('.') + 1;  // 0 if there is no dot
  for (const OtherName& row : kTypescriptNames)
    if (std::string_view(wanted).substr(last) == row.here) {
      std::string there = wanted.substr(0, last) + std::string(row.there);
      if (findTensor(file, there)) return there;
    }
  return wanted;
}

namespace {

/// Reads elements of a tensor and converts them to another type.
Result<void> readAs(const TensorSource& source, size_t tensor, DType dtype, int64_t first,
                    std::span<std::byte> out) {
  const DType own = source.tensors[tensor].second.dtype;
  if (own == dtype) return source.piece(tensor, first, out);
  HostArray raw = HostArray::zeros(own, Shape{static_cast<int64_t>(out.size()) / byteSize(dtype)});
  TG_CHECK(source.piece(tensor, first, raw.bytes));
  TG_TRY(const HostArray value, convertedTo(raw, dtype, first));
  std::ranges::copy(value.bytes, out.begin());
  return {};
}

/// An error if a tensor can never be read as another type. Otherwise that depends on its elements.
Result<void> canRead(const TensorSource& source, size_t tensor, const Type& type) {
  if (source.tensors[tensor].second.dtype == type.dtype) return {};
  std::vector<std::byte> piece;
  return eachPiece(type, [&](int64_t first, int64_t count) {
    piece.resize(static_cast<size_t>(count * byteSize(type.dtype)));
    return readAs(source, tensor, type.dtype, first, piece);
  });
}

}  // namespace

struct TensorHash::State {
  XXH3_state_t* hash = XXH3_createState();
  /// The list being read: its tensors, and the number of those that were begun.
  std::vector<std::pair<std::string, Type>> tensors;
  size_t begun = 0;

  State() { XXH3_64bits_reset(hash); }
  ~State() { XXH3_freeState(hash); }
  void add(const void* bytes, size_t count) { XXH3_64bits_update(hash, bytes, count); }
  void add(const std::string& text) {
    // The length keeps two different lists of texts from having the same bytes.
    const uint64_t size = text.size();
    add(&size, sizeof(size));
    add(text.data(), text.size());
  }
  /// Hashes what precedes the bytes of the tensors up to `end`. Tensors without elements are never read.
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
  out.read = [state = state_.get(), source = std::move(source)](size_t tensor, int64_t first,
                                                                std::span<std::byte> piece) -> Result<void> {
    TG_CHECK(source.piece(tensor, first, piece));
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

Result<TensorSource> matchTensors(TensorSource file, const std::vector<std::pair<std::string, Type>>& wanted,
                                  const std::string& where) {
  std::vector<size_t> places;  // position in the file of each wanted tensor
  std::string wrong;
  std::set<std::string> taken;
  for (const auto& [name, type] : wanted) {
    const std::string given = nameInFile(file.tensors, name);
    const auto* found = findTensor(file.tensors, given);
    taken.insert(given);
    if (!found) {
      wrong += fmt::format("\n  missing: {} {}", name, type.str());
      continue;
    }
    const Type& own = found->second;
    places.push_back(static_cast<size_t>(found - file.tensors.data()));
    // Arrays of that library are flat.
    const bool flat = given != name && own.rank() == 1 && own.elements() == type.elements();
    if (own.shape != type.shape && !flat)
      wrong += fmt::format("\n  shape: {} is {}, expected {}", name, own.str(), type.str());
    else if (auto can = canRead(file, places.back(), type); !can)
      wrong += fmt::format("\n  type: {} is {}, expected {}: {}", name, own.str(), type.str(),
                           can.error().message());
  }
  for (const auto& [name, type] : file.tensors)
    if (!taken.contains(name)) wrong += fmt::format("\n  not wanted: {} {}", name, type.str());
  if (!wrong.empty()) return fail("{}: the tensors do not fit the module:{}", where, wrong);
  TensorSource matched;
  matched.tensors = wanted;
  matched.read = [file = std::move(file), places, wanted](size_t tensor, int64_t first,
                                                          std::span<std::byte> out) {
    return readAs(file, places[tensor], wanted[tensor].second.dtype, first, out);
  };
  return matched;
}

}  // namespace tg
