// SPDX-License-Identifier: Apache-2.0
// Conversion of elements between the types of files and those of the runtime.
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
};

struct FileTypeInfo {
  FileType type;
  std::string_view name;
  int64_t bytes;
  DType host;  ///< the type that `fromFileElements` gives
  std::string_view safetensors, npy;
};

/// The rows of runtime/data/file_types.def, in the order of the enum.
inline constexpr FileTypeInfo kFileTypes[] = {
#define FILE_TYPE(id, name, bytes, host, safetensors, npy) \
  {FileType::id, name, bytes, DType::host, safetensors, npy},
#include "runtime/data/file_types.def"
};

constexpr const FileTypeInfo& info(FileType type) { return kFileTypes[static_cast<int>(type)]; }

/// The name, such as `u8`; boolean is `i1`.
constexpr std::string_view name(FileType type) { return info(type).name; }
/// The type with this name.
std::optional<FileType> fileTypeNamed(std::string_view name);
/// The type that `fromFileElements` gives.
constexpr DType hostType(FileType type) { return info(type).host; }
/// Bytes of one element.
constexpr int64_t byteSize(FileType type) { return info(type).bytes; }

/// What to do with a number that is too large for f32: report an error, or round it to infinity.
enum class Beyond : uint8_t { error, infinite };

/// What the elements of a file become: the host type of the file, unless told otherwise.
struct ElementGoal {
  std::optional<DType> dtype = {};     ///< i32 or u32 for integers, any real type for reals
  std::optional<double> divisor = {};  ///< the elements divided by it, in f32 or `dtype`
};

/// The array with these dense row-major elements. f64, f16 and bf16 become f32 (f64 is rounded); i64, u64 and the
/// narrow integers become i32; boolean becomes i1; unless `goal` says otherwise. Errors: an integer that does not fit, a
/// boolean byte above 1, a byte count that does not match the shape. Errors number the elements from `first` on.
Result<HostArray> fromFileElements(FileType type, const Shape& shape, std::span<const std::byte> raw,
                                   const ElementGoal& goal = {}, int64_t first = 0,
                                   Beyond beyond = Beyond::error);

/// The dtype that such elements become if that changes no byte of them.
std::optional<DType> unconverted(FileType type, const ElementGoal& goal);

/// The error of a byte above 1 in the place of a boolean.
Error notBoolean(int byte);

/// The array with every element rounded to `dtype`. Reals can be converted to reals, and finite ones must stay finite;
/// integers must keep their values. Otherwise an error, which numbers the elements from `first` on.
Result<HostArray> convertedTo(const HostArray& array, DType dtype, int64_t first = 0);

/// The elements in f64, to which integers of 64 bits are rounded.
std::vector<double> numbersOf(FileType type, std::span<const std::byte> raw);

/// The type as which an array is written: its own; boolean for i1.
FileType fileTypeOf(DType dtype);
/// The elements of `array` as `fileTypeOf(array.dtype)`.
std::vector<std::byte> toFileElements(const HostArray& array);

}  // namespace tg
