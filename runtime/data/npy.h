// SPDX-License-Identifier: Apache-2.0
// NumPy's array files: .npy (versions 1 and 2, C order, little-endian) and members of .npz archives.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/elements.h"

namespace tg {

/// The position of an array's elements in a file, and their type and shape.
struct NpyLayout {
  FileType type;
  Shape shape;
  size_t start;  ///< the elements take all bytes from here on
};
/// The number of bytes that are enough to know the length of a header.
constexpr size_t kNpyStart = 12;
/// The end of the header, given the first kNpyStart bytes of a file (or all of a shorter one). kNpyStart if this is
/// another format.
size_t npyHeaderEnd(std::span<const std::byte> first);
/// The layout of an array file of `size` bytes, whose first bytes, with the whole header, are given. An error unless
/// the elements take as many bytes as the header says. Big-endian, structured and Fortran-ordered arrays are errors,
/// which say what was expected.
Result<NpyLayout> parseNpyLayout(std::span<const std::byte> first, size_t size, std::string_view where);

/// The bytes of a version 1 file: f32 as f4, f16 as f2, i32 as i4, u32 as u4, i1 as b1.
std::vector<std::byte> formatNpy(const HostArray& array);
/// Writes the file atomically.
Result<void> writeNpy(const std::string& path, const HostArray& array);

/// The .npy bytes of the member `key` (or `key.npy`) of an archive with stored or deflated members. An empty key means
/// the only member. The error for an unknown key lists the existing ones.
Result<std::vector<std::byte>> readNpzMember(const std::string& path, std::string_view key);

}  // namespace tg
