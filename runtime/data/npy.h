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

/// Reads dtypes f4 f8 f2 (as f32), i1 i2 i4 i8 u1 u2 u8 (as i32, 64-bit ones only if they fit),
/// u4 (as u32) and b1 (as i1). Big-endian, structured and Fortran-ordered arrays are refused. Every
/// error names the file and what was expected.
Result<HostArray> readNpy(const std::string& path);
/// The same of bytes in memory; `where` names them in errors.
Result<HostArray> parseNpy(std::span<const std::byte> bytes, std::string_view where);

/// Where an array's elements are among a file's bytes, and what they are.
struct NpyLayout {
  FileType type;
  Shape shape;
  size_t start;  ///< the elements take all bytes from here on
};
/// So many bytes tell how long a header is.
constexpr size_t kNpyStart = 12;
/// Where the header ends whose first kNpyStart bytes, or all there are, these are; kNpyStart for another
/// format.
size_t npyHeaderEnd(std::span<const std::byte> first);
/// Of an array of `size` bytes whose first ones are these, the header whole; the elements are as many bytes
/// as it says.
Result<NpyLayout> parseNpyLayout(std::span<const std::byte> first, size_t size, std::string_view where);

/// Version 1 bytes: f32 as f4, f16 as f2, i32 as i4, u32 as u4, i1 as b1.
std::vector<std::byte> formatNpy(const HostArray& array);
/// Writes the file atomically.
Result<void> writeNpy(const std::string& path, const HostArray& array);

/// The array named `key` (or `key.npy`) of an archive with stored or deflated members. An empty key
/// is the only member; a wrong key is an error that lists those there are.
Result<HostArray> readNpz(const std::string& path, std::string_view key);
/// The same member's .npy bytes.
Result<std::vector<std::byte>> readNpzMember(const std::string& path, std::string_view key);
/// The array names in the archive's order, without `.npy`.
Result<std::vector<std::string>> npzKeys(const std::string& path);

}  // namespace tg
