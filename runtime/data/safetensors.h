// SPDX-License-Identifier: Apache-2.0
// The safetensors format: named arrays with a JSON header. Parameters and checkpoints are stored in it.
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

/// A file whose tensors are all in memory.
struct Safetensors {
  /// In the order of their bytes in the file.
  std::vector<std::pair<std::string, HostArray>> tensors;
  std::map<std::string, std::string> metadata;
  /// The file's type of each tensor.
  std::vector<FileType> fileTypes = {};

  /// The tensor with this name, or null.
  const HostArray* find(std::string_view name) const;
};

/// Writes f32 as F32, f16 as F16, bf16 as BF16, i32 as I32, u32 as U32 and i1 as BOOL. The file is replaced atomically:
/// a reader sees all of the old file or all of the new one. If reading a tensor fails, the old file stays. Names must be
/// distinct UTF-8, other than `__metadata__`.
Result<void> writeSafetensors(const std::string& path, const TensorSource& tensors,
                              const std::map<std::string, std::string>& metadata);

/// Receives the file's bytes in order; its first error ends the work.
using ByteSink = std::function<Result<void>(std::span<const std::byte>)>;
Result<void> formatSafetensors(const TensorSource& tensors,
                               const std::map<std::string, std::string>& metadata, const ByteSink& sink);

/// Whether F16 and BF16 are read as f32, which holds all their values, or as 16-bit types.
enum class Halves : uint8_t { widen, keep };

/// An open file whose tensors are read on demand.
struct SafetensorsFile {
  TensorSource tensors;             ///< in the order of their bytes, with the types as which they are read
  std::vector<FileType> fileTypes;  ///< of each tensor in the file
  /// Fills `out` with elements of a tensor from `first` on as the file has them, of type `fileTypes`.
  std::function<Result<void>(size_t tensor, int64_t first, std::span<std::byte> out)> stored;
  std::map<std::string, std::string> metadata;
};
/// Errors and types are those of `readSafetensors`; elements that do not fit are reported when they are read.
Result<SafetensorsFile> openSafetensors(const std::string& path, Halves halves = Halves::widen);

/// Reads F32, F64, F16 and BF16 as f32; I32, I64 (if it fits), I16, I8, U16 and U8 as i32; U32 as u32; BOOL as i1. The
/// header must describe the file's bytes exactly, or it is an error.
Result<Safetensors> readSafetensors(const std::string& path, Halves halves = Halves::widen);

}  // namespace tg
