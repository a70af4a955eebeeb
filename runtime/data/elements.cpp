// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/elements.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "ir/text.h"

namespace tg {

namespace {

/// Whether a conversion kept the value: a real may be rounded, but must not become infinite.
template <class From, class To>
bool keeps(From from, To to) {
  if constexpr (std::is_floating_point_v<From>)
    return std::isfinite(to) || !std::isfinite(from);
  else
    return std::in_range<To>(from);
}

template <class From>
Error misfit(int64_t index, From value, DType dtype) {
  return fail("element {} is {}, which does not fit {}", index, value, name(dtype));
}

/// Applies `convert` to each stored `From` and writes the `To` to `array`.
template <class From, class To, class Convert>
void convertAll(std::span<const std::byte> raw, HostArray& array, Convert convert) {
  const size_t count = raw.size() / sizeof(From);
  for (size_t index = 0; index < count; ++index) {
    From stored;
    std::memcpy(&stored, raw.data() + index * sizeof(From), sizeof(From));
    const To value = convert(stored);
    std::memcpy(array.bytes.data() + index * sizeof(To), &value, sizeof(To));
  }
}

/// The same with a cast. A value that changes is an error, which numbers the elements from `first` on.
template <class From, class To>
Result<HostArray> castAll(DType dtype, const Shape& shape, std::span<const std::byte> raw, int64_t first) {
  HostArray array = HostArray::zeros(dtype, shape);
  const int64_t none = shape.elements();
  int64_t index = 0, wrong = none;
  From outlier = 0;
  convertAll<From, To>(raw, array, [&](From value) {
    const auto cast = static_cast<To>(value);
    if (wrong == none && !keeps(value, cast)) wrong = index, outlier = value;
    ++index;
    return cast;
  });
  if (wrong != none) return misfit(first + wrong, outlier, dtype);
  return array;
}

Result<HostArray> toI1(const Shape& shape, std::span<const std::byte> raw) {
  HostArray array = HostArray::zeros(DType::i1, shape);
  uint8_t largest = 0;
  convertAll<uint8_t, int32_t>(raw, array, [&](uint8_t value) {
    if (value > largest) largest = value;
    return static_cast<int32_t>(value);
  });
  if (largest > 1) return notBoolean(largest);
  return array;
}

/// Calls `fn` with a value of the C++ type in which files hold such elements: uint16_t for f16 and bf16.
template <class Fn>
auto withStored(FileType type, Fn fn) {
  switch (type) {
  case FileType::boolean:
  case FileType::u8: return fn(uint8_t());
  case FileType::i8: return fn(int8_t());
  case FileType::i16: return fn(int16_t());
  case FileType::u16:
  case FileType::f16:
  case FileType::bf16: return fn(uint16_t());
  case FileType::i32: return fn(int32_t());
  case FileType::u32: return fn(uint32_t());
  case FileType::i64: return fn(int64_t());
  case FileType::u64: return fn(uint64_t());
  case FileType::f32: return fn(float());
  case FileType::f64: return fn(double());
  }
  return fn(double());  // for compilers that do not see that all types were named
}

std::optional<DType> narrowTypeOf(FileType type) {
  const std::optional<DType> dtype = dtypeNamed(name(type));
  return dtype && isNarrow(*dtype) ? dtype : std::nullopt;
}

/// The number that is stored as this: uint16_t may be bits of a `narrow` type.
template <class Stored>
double numberOf(Stored stored, std::optional<DType> narrow) {
  if constexpr (std::is_same_v<Stored, uint16_t>)
    if (narrow) return narrowValue(*narrow, stored);
  return static_cast<double>(stored);
}

/// The elements divided by a number, in f32. The quotient is computed in f64. A finite one beyond f32 becomes what
/// `beyond` says; elements are numbered from `first` on.
Result<HostArray> quotients(FileType type, const Shape& shape, std::span<const std::byte> raw, double divisor,
                            int64_t first, Beyond beyond) {
  if (type == FileType::boolean) TG_CHECK(toI1(shape, raw));
  HostArray array = HostArray::zeros(DType::f32, shape);
  const std::optional<DType> narrow = narrowTypeOf(type);
  const int64_t none = shape.elements();
  int64_t index = 0, wrong = none;
  double outlier = 0;
  withStored(type, [&]<class Stored>(Stored) {
    const auto quotient = [&](Stored stored) {
      return static_cast<float>(numberOf(stored, narrow) / divisor);
    };
    const auto checked = [&](Stored stored, float out) {
      const double number = numberOf(stored, narrow);
      if (wrong == none && !keeps(number, out)) wrong = index, outlier = number / divisor;
      ++index;
      return out;
    };
    if constexpr (sizeof(Stored) == 1) {
      std::array<float, 256> table;  // one division for each value
      for (int byte = 0; byte < 256; ++byte)
        table[static_cast<size_t>(byte)] = quotient(static_cast<Stored>(byte));
      convertAll<Stored, float>(
          raw, array, [&](Stored stored) { return checked(stored, table[static_cast<uint8_t>(stored)]); });
    } else {
      convertAll<Stored, float>(raw, array, [&](Stored stored) { return checked(stored, quotient(stored)); });
    }
  });
  if (beyond == Beyond::error && wrong != none) return misfit(first + wrong, outlier, DType::f32);
  return array;
}

}  // namespace

Error notBoolean(int byte) { return fail("expected booleans stored as 0 or 1, got {}", byte); }

std::optional<FileType> fileTypeNamed(std::string_view name) {
  for (const FileTypeInfo& row : kFileTypes)
    if (row.name == name) return row.type;
  return std::nullopt;
}

/// The elements as their host type, integers as i32 or u32.
static Result<HostArray> asHostType(FileType type, const Shape& shape, std::span<const std::byte> raw,
                                    DType integers, int64_t first, Beyond beyond) {
  if (type == FileType::boolean) return toI1(shape, raw);
  if (isFloat(hostType(type))) return quotients(type, shape, raw, 1, first, beyond);
  return withStored(type, [&]<class From>(From) {
    return integers == DType::u32 ? castAll<From, uint32_t>(DType::u32, shape, raw, first)
                                  : castAll<From, int32_t>(DType::i32, shape, raw, first);
  });
}

std::optional<DType> unconverted(FileType type, const ElementGoal& goal) {
  const DType dtype = goal.dtype.value_or(hostType(type));
  const bool same = !goal.divisor && dtype != DType::i1 && fileTypeOf(dtype) == type;
  return same ? std::optional(dtype) : std::nullopt;
}

Result<HostArray> fromFileElements(FileType type, const Shape& shape, std::span<const std::byte> raw,
                                   const ElementGoal& goal, int64_t first, Beyond beyond) {
  const int64_t expected = shape.elements() * byteSize(type);
  if (static_cast<size_t>(expected) != raw.size())
    return fail("expected {} of elements, got {}", countText(expected, "byte"), raw.size());
  if (const auto dtype = unconverted(type, goal)) return HostArray{*dtype, shape, {raw.begin(), raw.end()}};
  HostArray array;
  if (goal.divisor) {
    TG_TRY(array, quotients(type, shape, raw, *goal.divisor, first, beyond));
  } else {
    const DType integers =
        goal.dtype == DType::u32 || (!goal.dtype && type == FileType::u32) ? DType::u32 : DType::i32;
    TG_TRY(array, asHostType(type, shape, raw, integers, first, beyond));
  }
  if (!goal.dtype || array.dtype == *goal.dtype) return array;
  HostArray out = HostArray::zeros(*goal.dtype, shape);
  for (int64_t index = 0; index < array.elements(); ++index) out.set(index, array.at(index));
  return out;
}

std::vector<double> numbersOf(FileType type, std::span<const std::byte> raw) {
  std::vector<double> numbers(raw.size() / static_cast<size_t>(byteSize(type)));
  const std::optional<DType> narrow = narrowTypeOf(type);
  withStored(type, [&]<class Stored>(Stored) {
    for (size_t index = 0; index < numbers.size(); ++index) {
      Stored stored;
      std::memcpy(&stored, raw.data() + index * sizeof(Stored), sizeof(Stored));
      numbers[index] = numberOf(stored, narrow);
    }
  });
  return numbers;
}

FileType fileTypeOf(DType dtype) { return *fileTypeNamed(name(dtype)); }

std::vector<std::byte> toFileElements(const HostArray& array) {
  if (array.dtype != DType::i1) return array.bytes;
  std::vector<std::byte> packed;
  packed.reserve(array.i32().size());
  for (const int32_t flag : array.i32()) packed.push_back(static_cast<std::byte>(flag != 0));
  return packed;
}

Result<HostArray> convertedTo(const HostArray& from, DType dtype, int64_t first) {
  if (from.dtype == dtype) return from;
  if (isFloat(from.dtype) != isFloat(dtype)) return fail("the types differ");
  HostArray to = HostArray::zeros(dtype, from.shape);
  for (int64_t i = 0; i < from.elements(); ++i) {
    const double value = from.at(i);
    to.set(i, value);
    if (isFloat(dtype) ? !keeps(value, to.at(i)) : to.at(i) != value) return misfit(first + i, value, dtype);
  }
  return to;
}

}  // namespace tg
