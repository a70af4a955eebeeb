// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/tensor_facts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "runtime/data/elements.h"
#include "runtime/data/safetensors.h"

namespace tg {

namespace {

/// The first element whose exponent bits are all set. Blocks are tested as a whole, without a branch for each element.
template <class Bits>
int64_t firstWithExponent(std::span<const std::byte> bytes, Bits exponent) {
  constexpr size_t kBlock = 1024;
  const size_t count = bytes.size() / sizeof(Bits);
  Bits block[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    std::memcpy(block, bytes.data() + begin * sizeof(Bits), size * sizeof(Bits));
    bool found = false;
    for (size_t i = 0; i < size; ++i) found |= (block[i] & exponent) == exponent;
    for (size_t i = 0; found && i < size; ++i)
      if ((block[i] & exponent) == exponent) return static_cast<int64_t>(begin + i);
  }
  return static_cast<int64_t>(count);
}

/// The name of an element such as `w[0, 3]`; for a tensor of rank 0, the tensor's name.
std::string elementName(const std::string& name, const Shape& shape, int64_t place) {
  std::string at;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at = fmt::format("{}{}{}", place % shape[axis], at.empty() ? "" : ", ", at);
    place /= shape[axis];
  }
  return at.empty() ? name : fmt::format("{}[{}]", name, at);
}

}  // namespace

static int64_t firstNotFinite(DType dtype, std::span<const std::byte> bytes) {
  if (isNarrow(dtype)) return firstWithExponent(bytes, narrowBits(dtype, INFINITY));
  if (isFloat(dtype)) return firstWithExponent<uint32_t>(bytes, 0x7f800000);
  return static_cast<int64_t>(bytes.size()) / byteSize(dtype);
}

int64_t firstNotFinite(const HostArray& array) { return firstNotFinite(array.dtype, array.bytes); }

std::string notFiniteIn(const std::string& name, const Type& type, int64_t first,
                        std::span<const std::byte> piece) {
  const int64_t place = firstNotFinite(type.dtype, piece);
  const int64_t element = byteSize(type.dtype);
  if (place * element == static_cast<int64_t>(piece.size())) return "";
  const auto bytes = piece.subspan(static_cast<size_t>(place * element), static_cast<size_t>(element));
  const HostArray value{type.dtype, {}, {bytes.begin(), bytes.end()}};
  return fmt::format("{} is {}", elementName(name, type.shape, first + place), value.at(0));
}

/// Statistics of numbers that come one after another. long double, so that squares of large f64 do not overflow.
class Statistics {
 public:
  void add(double value) {
    if (!std::isfinite(value)) {
      ++nonFinite_;
      return;
    }
    min_ = count_ ? std::min(min_, value) : value;
    max_ = count_ ? std::max(max_, value) : value;
    // Welford's recurrence avoids the cancellation of squares of large values.
    const long double before = value - mean_;
    mean_ += before / static_cast<long double>(++count_);
    squares_ += before * (value - mean_);
  }
  void write(TensorFacts& facts) const {
    facts.nonFinite = nonFinite_;
    facts.min = min_;
    facts.max = max_;
    facts.mean = static_cast<double>(mean_);
    if (count_) facts.std = static_cast<double>(std::sqrt(squares_ / static_cast<long double>(count_)));
  }

 private:
  int64_t count_ = 0, nonFinite_ = 0;
  double min_ = 0, max_ = 0;
  long double mean_ = 0, squares_ = 0;
};

Result<FileFacts> fileFacts(const std::string& path) {
  TG_TRY(SafetensorsFile file, openSafetensors(path, Halves::keep));
  FileFacts out;
  out.metadata = std::move(file.metadata);
  for (size_t i = 0; i < file.fileTypes.size(); ++i) {
    const auto& [name, type] = file.tensors.tensors[i];
    const FileType stored = file.fileTypes[i];
    TensorFacts& facts = out.tensors.emplace_back();
    facts.name = name;
    facts.dtype = info(stored).safetensors;
    facts.shape = type.shape;
    facts.bytes = type.elements() * byteSize(stored);
    Statistics statistics;
    std::vector<std::byte> raw;
    TG_CHECK(eachPiece(type, [&](int64_t first, int64_t count) -> Result<void> {
      raw.resize(static_cast<size_t>(count * byteSize(stored)));
      TG_CHECK(file.stored(i, first, raw));
      for (const double number : numbersOf(stored, raw)) statistics.add(number);
      return {};
    }));
    statistics.write(facts);
    if (stored == FileType::boolean && facts.max > 1)
      return fail("{}: tensor '{}': {}", path, name, notBoolean(static_cast<int>(facts.max)).message());
  }
  return out;
}

}  // namespace tg
