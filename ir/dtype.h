// SPDX-License-Identifier: Apache-2.0
// Element types and their properties, from the table ir/dtypes.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

/// Element types. `i1` is a 4-byte 0/1 in buffers; kernels spell the scalar `bool`.
enum class DType : uint8_t {
#define DTYPE(id, ...) id,
#include "ir/dtypes.def"
};

enum class DTypeFamily : uint8_t { real, sint, uint, flag };

/// One row of the table.
struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  DTypeFamily family;
  DType compute;
  int digits, least;
  double largest;
  std::string_view c, meaning;
};

/// The table's rows, in the order of the enum.
inline constexpr DTypeInfo kDTypes[] = {
#define DTYPE(id, bytes, family, compute, digits, least, largest, c, meaning) \
  {DType::id, #id, bytes, DTypeFamily::family, DType::compute, digits, least, largest, c, meaning},
#include "ir/dtypes.def"
};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<int>(dtype)]; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }
/// Bytes one element takes in a buffer.
constexpr int64_t byteSize(DType dtype) { return info(dtype).bytes; }
constexpr bool isFloat(DType dtype) { return info(dtype).family == DTypeFamily::real; }
/// The type that kernels compute with for elements that memory holds as `dtype`.
constexpr DType computeType(DType dtype) { return info(dtype).compute; }
/// Whether it is a real of fewer bits than the type it is computed with: f16 and bf16.
constexpr bool isNarrow(DType dtype) { return computeType(dtype) != dtype; }
/// The least and the largest value of an integer type or of i1.
struct IntegerRange {
  int64_t least, most;
};
constexpr IntegerRange integerRange(DType integer) {
  switch (info(integer).family) {
  case DTypeFamily::sint: return {INT32_MIN, INT32_MAX};
  case DTypeFamily::flag: return {0, 1};
  default: return {0, UINT32_MAX};
  }
}
/// The type with that name.
std::optional<DType> dtypeNamed(std::string_view name);
/// All names in a sentence: `f32, f16 or i32`.
std::string dtypeNames();

/// The nearest value of a real type, ties to even; infinite beyond the largest, and a NaN stays NaN. For other types
/// the value itself.
double roundedTo(DType real, double value);
/// Converts between the bits of a narrow real and its value.
uint16_t narrowBits(DType narrow, double value);
double narrowValue(DType narrow, uint16_t bits);

}  // namespace tg
