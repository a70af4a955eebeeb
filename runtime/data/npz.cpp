// SPDX-License-Identifier: Apache-2.0
// The part of the zip format that .npz archives use: a central directory of stored or deflated
// members. Every offset and length is checked against the file before it is used.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "ir/file_io.h"
#include "runtime/data/npy.h"

namespace tg {

namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kMaxComment = 65535;
constexpr uint16_t kStored = 0, kDeflated = 8;

struct ZipMember {
  std::string name;  ///< as in the archive
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0, packedSize = 0, size = 0, offset = 0;
};

template <class T>
T load(Bytes bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Archives made by macOS hold a file of attributes for each member, under its name in this folder.
bool isArray(const ZipMember& member) {
  return member.name.ends_with(".npy") && !member.name.starts_with("__MACOSX/");
}

std::string keyOf(const std::string& name) {
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

Result<size_t> findEnd(Bytes file, const std::string& path) {
  if (file.size() >= kEndSize) {
    const size_t last = file.size() - kEndSize;
    const size_t first = last > kMaxComment ? last - kMaxComment : 0;
    for (size_t at = last + 1; at-- > first;)
      if (load<uint32_t>(file, at) == kEndMagic) return at;
  }
  return fail("{}: expected a .npz archive, got another format or a part of one", path);
}

Result<std::vector<ZipMember>> readDirectory(Bytes file, const std::string& path) {
  TG_TRY(const size_t end, findEnd(file, path));
  const uint16_t count = load<uint16_t>(file, end + 10);
  size_t at = load<uint32_t>(file, end + 16);
  if (count == 0xFFFF || at == 0xFFFFFFFF)
    return fail("{}: expected an archive below 4 GiB, got the zip64 format", path);
  const Error broken = fail("{}: the archive's directory is broken", path);
  std::vector<ZipMember> members;
  for (int index = 0; index < count; ++index) {
    if (at > end || end - at < kCentralSize || load<uint32_t>(file, at) != kCentralMagic) return broken;
    const size_t nameSize = load<uint16_t>(file, at + 28);
    const size_t size =
        kCentralSize + nameSize + load<uint16_t>(file, at + 30) + load<uint16_t>(file, at + 32);
    if (end - at < size) return broken;
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(file.data()) + at + kCentralSize, nameSize);
    member.flags = load<uint16_t>(file, at + 8);
    member.method = load<uint16_t>(file, at + 10);
    member.crc = load<uint32_t>(file, at + 16);
    member.packedSize = load<uint32_t>(file, at + 20);
    member.size = load<uint32_t>(file, at + 24);
    member.offset = load<uint32_t>(file, at + 42);
    members.push_back(std::move(member));
    at += size;
  }
  return members;
}

bool inflateInto(Bytes packed, std::vector<std::byte>& out) {
  z_stream stream{};
  // Negative: raw deflate data without a zlib header.
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.total_out == out.size();
  inflateEnd(&stream);
  return whole;
}

Result<std::vector<std::byte>> unpack(Bytes file, const ZipMember& member, const std::string& where) {
  if (member.packedSize == 0xFFFFFFFF || member.size == 0xFFFFFFFF || member.offset == 0xFFFFFFFF)
    return fail("{}: expected a member below 4 GiB, got the zip64 format", where);
  if (member.flags & 1) return fail("{}: expected a plain member, got an encrypted one", where);
  if (member.method != kStored && member.method != kDeflated)
    return fail("{}: expected a stored or deflated member, got zip method {}", where, member.method);
  const Error broken = fail("{}: the archive's member is broken", where);
  size_t at = member.offset;
  if (at > file.size() || file.size() - at < kLocalSize || load<uint32_t>(file, at) != kLocalMagic)
    return broken;
  at += kLocalSize + load<uint16_t>(file, at + 26) + load<uint16_t>(file, at + 28);
  if (at > file.size() || file.size() - at < member.packedSize) return broken;
  const Bytes packed = file.subspan(at, member.packedSize);

  std::vector<std::byte> bytes;
  if (member.method == kStored) {
    if (member.size != member.packedSize) return broken;
    bytes.assign(packed.begin(), packed.end());
  } else {
    // Deflate expands at most 1032 times, so a larger claim must be false; no memory is allocated for it.
    if (member.size / 1032 > packed.size() + 1) return broken;
    bytes.resize(member.size);
    if (!inflateInto(packed, bytes)) return broken;
  }
  if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != member.crc)
    return fail("{}: the checksum does not match the bytes", where);
  return bytes;
}

}  // namespace

Result<std::vector<std::byte>> readNpzMember(const std::string& path, std::string_view key) {
  TG_TRY(const auto file, readFileOrPipe(path));
  TG_TRY(auto members, readDirectory(file, path));
  auto isMeant = [&](const ZipMember& member) { return member.name == key || keyOf(member.name) == key; };
  auto found = std::ranges::find_if(members, isMeant);
  if (found != members.end() && std::any_of(found + 1, members.end(), isMeant))
    return fail("{}: there are two members '{}'", path, key);
  if (found == members.end()) {
    // Other files may lie beside the arrays, such as a README.
    if (std::ranges::any_of(members, isArray)) std::erase_if(members, std::not_fn(isArray));
    found = key.empty() && members.size() == 1 ? members.begin() : members.end();
  }
  if (found == members.end()) {
    std::vector<std::string> keys;
    for (const ZipMember& member : members) keys.push_back(keyOf(member.name));
    if (keys.empty()) return fail("{}: the archive holds no array", path);
    if (key.empty())
      return fail("{0}: the archive holds several arrays, so one must be named, such as {0}:{1}; it has: {2}",
                  path, keys[0], fmt::join(keys, ", "));
    return fail("{}: expected a key of the archive, got '{}'; it has: {}", path, key, fmt::join(keys, ", "));
  }
  return unpack(file, *found, fmt::format("{}:{}", path, keyOf(found->name)));
}

}  // namespace tg
