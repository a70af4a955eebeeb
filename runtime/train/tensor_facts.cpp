// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/tensor_facts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

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

TensorFacts tensorFacts(const std::string& name, const HostArray& array) {
  TensorFacts facts;
  facts.name = name;
  facts.shape = array.shape;
  // Welford's recurrence avoids the cancellation of squares of large values.
  double squares = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < array.elements(); ++i) {
    const double value = array.at(i);
    if (!std::isfinite(value)) {
      ++facts.nonFinite;
      continue;
    }
    facts.min = count ? std::min(facts.min, value) : value;
    facts.max = count ? std::max(facts.max, value) : value;
    const double before = value - facts.mean;
    facts.mean += before / static_cast<double>(++count);
    squares += before * (value - facts.mean);
  }
  if (count) facts.std = std::sqrt(squares / static_cast<double>(count));
  return facts;
}

Result<FileFacts> fileFacts(const std::string& path) {
  auto read = readSafetensors(path, Halves::keep);
  if (!read) read = readSafetensors(path, Halves::round);  // numbers of 64 bits may not fit
  if (!read) return read.takeError();
  Safetensors file = std::move(*read);
  FileFacts out;
  out.metadata = std::move(file.metadata);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const auto& [name, array] = file.tensors[i];
    TensorFacts facts = tensorFacts(name, array);
    facts.dtype = info(file.fileTypes[i]).safetensors;
    facts.bytes = array.elements() * byteSize(file.fileTypes[i]);
    out.tensors.push_back(std::move(facts));
  }
  return out;
}

}  // namespace tg
