// SPDX-License-Identifier: Apache-2.0
// The safetensors format: named arrays with a JSON header. Parameters and checkpoints are kept in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/elements.h"
#include "runtime/data/pieces.h"

namespace tg {

struct Safetensors {
  /// In the order of their bytes in the file.
  std::vector<std::pair<std::string, HostArray>> tensors;
  std::map<std::string, std::string> metadata;
  /// The type in the file of each tensor. Reading fills it in, writing passes it over.
  std::vector<FileType> fileTypes = {};

  /// The tensor of that name, or null.
  const HostArray* find(std::string_view name) const;
};

/// Writes f32 as F32, f16 as F16, bf16 as BF16, i32 as I32, u32 as U32 and i1 as BOOL. The file is replaced
/// atomically: whoever reads it sees all of the old one or all of the new one. Names must be
/// distinct UTF-8 other than `__metadata__`.
Result<void> writeSafetensors(const std::string& path, const Safetensors& content);

/// The same of tensors that are read as they are written. An error of reading one leaves the old file.
Result<void> writeSafetensors(const std::string& path, const TensorSource& tensors,
                              const std::map<std::string, std::string>& metadata);

/// The same bytes, given to `sink` in order; its first error ends the work.
using ByteSink = std::function<Result<void>(std::span<const std::byte>)>;
Result<void> formatSafetensors(const TensorSource& tensors,
                               const std::map<std::string, std::string>& metadata, const ByteSink& sink);

/// What F16 and BF16 are read as: f32, which holds every value of them, or as they stand.
enum class Halves : uint8_t { widen, keep };

/// An open file, whose tensors are read as they are asked for.
struct SafetensorsFile {
  TensorSource tensors;             ///< in the order of their bytes, of the types that they are read as
  std::vector<FileType> fileTypes;  ///< of each tensor, in the file
  std::map<std::string, std::string> metadata;
};
/// Errors and types as `readSafetensors`; what elements do not fit is told when they are read.
Result<SafetensorsFile> openSafetensors(const std::string& path, Halves halves = Halves::widen);

/// Reads F32, F64, F16 and BF16 as f32, I32, I64 (if it fits), I16, I8, U16 and U8 as i32, U32 as
/// u32, BOOL as i1. A header that does not describe the file's bytes exactly is an error.
Result<Safetensors> readSafetensors(const std::string& path, Halves halves = Halves::widen);
/// The same of bytes in memory; `where` names them in errors.
Result<Safetensors> parseSafetensors(std::span<const std::byte> bytes, std::string_view where,
                                     Halves halves = Halves::widen);

}  // namespace tg
