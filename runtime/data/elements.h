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
enum class FileType : uint8_t {
#define FILE_TYPE(id, ...) id,
#include "runtime/data/file_types.def"
#undef FILE_TYPE
};

struct FileTypeInfo {
  FileType type;
  std::string_view name;
  int64_t bytes;
  DType host;  ///< what `fromFileElements` gives
  std::string_view safetensors, npy;
};

/// The rows of runtime/data/file_types.def, in the order of the enum.
inline constexpr FileTypeInfo kFileTypes[] = {
#define FILE_TYPE(id, name, bytes, host, safetensors, npy) \
  {FileType::id, name, bytes, DType::host, safetensors, npy},
#include "runtime/data/file_types.def"
#undef FILE_TYPE
};

constexpr const FileTypeInfo& info(FileType type) { return kFileTypes[static_cast<int>(type)]; }

/// `u8`; boolean is `i1`.
constexpr std::string_view name(FileType type) { return info(type).name; }
/// The type of that name.
std::optional<FileType> fileTypeNamed(std::string_view name);
/// The type `fromFileElements` gives.
constexpr DType hostType(FileType type) { return info(type).host; }
/// Bytes of one element.
constexpr int64_t byteSize(FileType type) { return info(type).bytes; }

/// How an f64 that is too large for f32 is read: as an error, or rounded to infinity.
enum class Beyond : uint8_t { error, infinite };

/// The array of dense row-major elements. f64, f16 and bf16 become f32 (f64 rounded); i64, u64 and
/// the narrow integers become i32; boolean becomes i1. A 64-bit integer that does not fit is an
/// error, as is a boolean byte above 1 or a byte count that does not match the shape. Errors number the elements
/// from `first` on.
Result<HostArray> fromFileElements(FileType type, const Shape& shape, std::span<const std::byte> raw,
                                   int64_t first = 0, Beyond beyond = Beyond::error);

/// The array with every element rounded to `dtype`, or why one cannot be: reals become reals, and
/// finite ones must stay finite; integers keep their values. Errors number the elements from `first` on.
Result<HostArray> convertedTo(const HostArray& array, DType dtype, int64_t first = 0);

/// The type that an array is written as: itself, i1 as boolean.
FileType fileTypeOf(DType dtype);
/// The elements of `array` as `fileTypeOf(array.dtype)`.
std::vector<std::byte> toFileElements(const HostArray& array);

}  // namespace tg
