// SPDX-License-Identifier: Apache-2.0
// Elements as files spell them, converted to and from the types of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"

namespace tg {

/// Element types of array files, little-endian.
enum class FileType : uint8_t { boolean, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64 };

/// `u8`; boolean is `i1`.
std::string_view name(FileType type);
/// The type of that name.
std::optional<FileType> fileTypeNamed(std::string_view name);
/// The type `fromFileElements` gives.
DType hostType(FileType type);
/// Bytes of one element.
int64_t byteSize(FileType type);

/// The array of dense row-major elements. f64, f16 and bf16 become f32 (f64 rounded); i64, u64 and
/// the narrow integers become i32; boolean becomes i1. A 64-bit integer that does not fit is an
/// error, as is a boolean byte above 1 or a byte count that does not match the shape.
Result<HostArray> fromFileElements(FileType type, const Shape& shape, std::span<const std::byte> raw);

/// The type that an array is written as: itself, i1 as boolean.
FileType fileTypeOf(DType dtype);
/// The elements of `array` as `fileTypeOf(array.dtype)`.
std::vector<std::byte> toFileElements(const HostArray& array);

}  // namespace tg
