// SPDX-License-Identifier: Apache-2.0
// Files built byte by byte from the formats' descriptions, and short ways to state results.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/array.h"
#include "test/unit/temp_folder.h"

namespace tg {

/// The little-endian bytes of some values, as text.
template <class T>
std::string le(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  return bytes;
}

inline std::span<const std::byte> bytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

inline std::vector<double> valuesOf(const HostArray& array) {
  std::vector<double> values;
  for (int64_t index = 0; index < array.elements(); ++index) values.push_back(array.at(index));
  return values;
}

inline HostArray arrayOf(DType dtype, Shape shape, const std::vector<double>& values) {
  HostArray array = HostArray::zeros(dtype, shape);
  for (size_t index = 0; index < values.size(); ++index)
    array.set(static_cast<int64_t>(index), values[index]);
  return array;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
/// The expression fails, and its message has all the parts.
#define EXPECT_FAILS(expression, ...)                                               \
  do {                                                                              \
    auto got = (expression);                                                        \
    ASSERT_FALSE(got) << #expression;                                               \
    for (const char* part : {__VA_ARGS__}) EXPECT_HAS(got.error().message(), part); \
  } while (false)
#define ASSERT_OK(result) ASSERT_TRUE(result) << (result).error().message()

using Files = FolderTest;

inline std::string npy(const std::string& descr, const std::string& shape, const std::string& elements,
                       const std::string& order = "False", int version = 1) {
  const std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  bytes += version == 1 ? le<uint16_t>({static_cast<uint16_t>(header.size())})
                        : le<uint32_t>({static_cast<uint32_t>(header.size())});
  return bytes + header + elements;
}

inline std::string tokenFile(const std::vector<uint16_t>& tokens, int32_t magic = 20240520,
                             int32_t version = 1) {
  std::string bytes = le<int32_t>({magic, version, static_cast<int32_t>(tokens.size())});
  bytes.resize(1024, '\0');
  for (const uint16_t token : tokens) bytes += le<uint16_t>({token});
  return bytes;
}

constexpr int kRawDeflate = -15, kGzip = 15 + 16;  ///< zlib's window bits
inline std::string deflated(const std::string& text, int windowBits = kRawDeflate) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct ZipMember {
  std::string name, content;
  bool packed = false;
};

/// An archive as numpy.savez writes it: each local header has a zip64 field of its own.
inline std::string zip(const std::vector<ZipMember>& members, const std::string& comment = "") {
  std::string file, directory;
  for (const auto& [name, content, packed] : members) {
    const std::string data = packed ? deflated(content) : content;
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    const auto dataSize = static_cast<uint32_t>(data.size()), size = static_cast<uint32_t>(content.size());
    const auto nameSize = static_cast<uint16_t>(name.size());
    const std::string zip64 = le<uint16_t>({1, 16}) + le<uint64_t>({size, dataSize});
    const uint16_t method = packed ? 8 : 0;
    const auto offset = static_cast<uint32_t>(file.size());
    file += "PK\3\4" + le<uint16_t>({45, 0, method, 0, 0}) + le<uint32_t>({crc, ~0u, ~0u}) +
            le<uint16_t>({nameSize, 20}) + name + zip64 + data;
    directory += "PK\1\2" + le<uint16_t>({45, 45, 0, method, 0, 0}) + le<uint32_t>({crc, dataSize, size}) +
                 le<uint16_t>({nameSize, 0, 0, 0, 0}) + le<uint32_t>({0, offset}) + name;
  }
  const auto count = static_cast<uint16_t>(members.size());
  return file + directory + "PK\5\6" + le<uint16_t>({0, 0, count, count}) +
         le<uint32_t>({static_cast<uint32_t>(directory.size()), static_cast<uint32_t>(file.size())}) +
         le<uint16_t>({static_cast<uint16_t>(comment.size())}) + comment;
}

}  // namespace tg
