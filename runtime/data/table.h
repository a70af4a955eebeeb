// SPDX-License-Identifier: Apache-2.0
// Arrays in files that may be larger than memory, read a few rows at a time.
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

struct NpyLayout;

/// A dense row-major array with elements in the file's type. They are read from the file, or held in memory: if the file
/// is packed, or after `hold`.
class Table {
 public:
  /// Opens a `.npy` file of any dtype of real or integer numbers; order as for `parseNpyLayout`.
  static Result<Table> openNpy(const std::string& path);
  /// Opens a member of a `.npz` archive and holds it in memory.
  static Result<Table> openNpz(const std::string& path, const std::string& key);
  /// Opens an IDX file, the format of MNIST: bytes 0, 0, type, rank; big-endian extents; big-endian elements. It may be
  /// packed by gzip, which its first bytes show. Single-byte elements of an unpacked file are read on demand; all else
  /// is held in memory.
  static Result<Table> openIdx(const std::string& path);
  /// Opens a file of nothing but little-endian elements. The first extent may be Shape::kDynamic, and then follows from
  /// the file's size. An error if the size does not fit the extents.
  static Result<Table> openRaw(const std::string& path, FileType type, Shape shape);

  const std::string& path() const { return path_; }
  FileType fileType() const { return type_; }
  const Shape& shape() const { return shape_; }
  /// For example `60000x28x28xu8`.
  std::string str() const;
  /// The extent of the first axis; 1 for rank 0.
  int64_t rows() const { return shape_.rank() ? shape_[0] : 1; }
  /// The size of all elements, in the file's type.
  size_t byteCount() const { return byteCount_; }
  /// Reads the elements into memory if they take at most `most` bytes, so that rows anywhere can be had without a system
  /// call each. If the file changes its size later, that is still an error.
  Result<void> hold(size_t most);
  /// Copies elements from byte `first` on, unconverted. An error if the file was truncated meanwhile.
  Result<void> readBytes(size_t first, std::span<std::byte> to) const;

  /// The same table, whose elements are converted to something else.
  Table giving(const ElementGoal& goal) const {
    Table out = *this;
    out.goal_ = goal;
    return out;
  }

  /// The rows with these indices, converted as by `fromFileElements`, in `memory` if it has room.
  Result<HostArray> gather(std::span<const int64_t> rows, std::vector<std::byte> memory = {}) const;
  /// Rows first … first + count - 1.
  Result<HostArray> range(int64_t first, int64_t count, Beyond beyond = Beyond::infinite) const;
  /// The whole array. A real that is too large for f32 is an error here. In the rows of a batch it becomes infinite
  /// instead, and the step that uses the row reports it.
  Result<HostArray> all() const { return range(0, rows(), Beyond::error); }

 private:
  void lay(const NpyLayout& layout, size_t size);
  /// `raw` as what the table gives; errors number its elements from `first` on.
  Result<HostArray> convert(const Shape& shape, std::vector<std::byte> raw, int64_t first,
                            Beyond beyond) const;
  Result<void> readRows(std::span<const int64_t> rows, std::span<std::byte> to) const;
  size_t rowBytes() const;

  std::string path_;
  FileType type_ = FileType::f32;
  ElementGoal goal_;
  Shape shape_;
  std::shared_ptr<const DataFile> file_;                ///< null if the file is packed
  std::shared_ptr<const std::vector<std::byte>> held_;  ///< the file's bytes, unpacked; may be null
  size_t start_ = 0, byteCount_ = 0;                    ///< of the elements in either
};

/// Whether these bytes begin with gzip's magic number.
bool isGzip(std::span<const std::byte> bytes);
/// Unpacks all members of a gzip file and compares their checksums. `where` names the bytes in errors. A result of more
/// than `most` bytes is an error, or is cut there if `cuts` is set.
Result<std::vector<std::byte>> gunzip(std::span<const std::byte> packed, std::string_view where,
                                      size_t most = SIZE_MAX, bool cuts = false);

}  // namespace tg
