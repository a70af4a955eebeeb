// SPDX-License-Identifier: Apache-2.0
// Arrays in files that may be larger than memory, taken a few rows at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/data_file.h"
#include "runtime/data/elements.h"

namespace tg {

/// A dense row-major array in the elements of its file: read from there, or held when the file packs them.
class Table {
 public:
  /// `.npy`; what `readNpy` says of dtypes and order holds.
  static Result<Table> openNpy(const std::string& path);
  /// A member of a `.npz` archive, held in memory.
  static Result<Table> openNpz(const std::string& path, const std::string& key);
  /// IDX, the format of MNIST: bytes 0, 0, type, rank; big-endian extents; big-endian elements. Packed by
  /// gzip or not, as its first bytes say; single bytes in a plain file stay there, all else is held in
  /// memory.
  static Result<Table> openIdx(const std::string& path);
  /// Nothing but little-endian elements. One extent, the first, may be Shape::kDynamic: as many as
  /// there are. Other sizes than the extents say are errors.
  static Result<Table> openRaw(const std::string& path, FileType type, Shape shape);

  const std::string& path() const { return path_; }
  FileType fileType() const { return type_; }
  const Shape& shape() const { return shape_; }
  /// `60000x28x28xu8`.
  std::string str() const;
  /// Extents along the first axis; 1 for rank 0.
  int64_t rows() const { return shape_.rank() ? shape_[0] : 1; }
  /// Of all elements, in the file's type.
  size_t byteCount() const { return byteCount_; }
  /// Copies elements from byte `first` on, as they are in the file. An error where it was cut off meanwhile.
  Result<void> readBytes(size_t first, std::span<std::byte> to) const;

  /// The rows of these indices as an array of the type `fromFileElements` makes of the file's.
  Result<HostArray> gather(std::span<const int64_t> rows) const;
  /// Rows first … first + count - 1.
  Result<HostArray> range(int64_t first, int64_t count, Beyond beyond = Beyond::infinite) const;
  /// The whole array. A real that is too large for f32 is an error; in rows of a batch it is told by the step that it
  /// spoils, or left out with it.
  Result<HostArray> all() const { return range(0, rows(), Beyond::error); }

 private:
  Result<HostArray> convert(const Shape& shape, std::span<const std::byte> raw, Beyond beyond) const;
  size_t rowBytes() const;

  std::string path_;
  FileType type_ = FileType::f32;
  Shape shape_;
  std::shared_ptr<const DataFile> file_;                ///< null when the elements are held
  std::shared_ptr<const std::vector<std::byte>> held_;  ///< as the file, unpacked
  size_t start_ = 0, byteCount_ = 0;                    ///< of the elements in either
};

/// Whether these bytes begin as gzip's do.
bool isGzip(std::span<const std::byte> bytes);
/// What gzip packed, every member of it, its checksums compared. `where` names the bytes in errors. More than
/// `most` bytes are an error, or where `cuts` left out.
Result<std::vector<std::byte>> gunzip(std::span<const std::byte> packed, std::string_view where,
                                      size_t most = SIZE_MAX, bool cuts = false);

}  // namespace tg
