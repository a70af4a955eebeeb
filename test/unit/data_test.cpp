// SPDX-License-Identifier: Apache-2.0
// Array files: .npy, .npz and safetensors. What is read here is built from the formats' descriptions,
// not by the writers.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "runtime/train/log_file.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

/// The array in the bytes of a .npy file, which errors call `where`.
Result<HostArray> parseNpy(std::span<const std::byte> bytes, std::string_view where) {
  TG_TRY(const NpyLayout layout, parseNpyLayout(bytes, bytes.size(), where));
  auto array =
      fromFileElements(layout.type, layout.shape, bytes.subspan(layout.start), {}, 0, Beyond::infinite);
  if (!array) return fail("{}: {}", where, array.error().message());
  return array;
}

Result<HostArray> readNpy(const std::string& path) {
  TG_TRY(const auto bytes, readFileOrPipe(path));
  return parseNpy(bytes, path);
}

Result<HostArray> readNpz(const std::string& path, std::string_view key) {
  TG_TRY(const auto bytes, readNpzMember(path, key));
  return parseNpy(bytes, path);
}

TEST(Npy, ReadsEveryType) {
  struct Case {
    const char* descr;
    std::string elements;
    DType dtype;
    std::vector<double> values;
  };
  const Case cases[] = {
      {"<f4", le<float>({1.5f, -2}), DType::f32, {1.5, -2}},
      {"<f8", le<double>({0.1, 1e300}), DType::f32, {0.1f, INFINITY}},
      {"<f2", le<uint16_t>({0x3c00, 0xc000}), DType::f32, {1, -2}},
      {"<i4", le<int32_t>({-7, 2147483647}), DType::i32, {-7, 2147483647}},
      {"<i8", le<int64_t>({-2147483648LL, 5}), DType::i32, {-2147483648.0, 5}},
      {"<u8", le<uint64_t>({2147483647, 5}), DType::i32, {2147483647, 5}},
      {"<u4", le<uint32_t>({4294967295u, 5}), DType::u32, {4294967295.0, 5}},
      {"<i2", le<int16_t>({-3, 5}), DType::i32, {-3, 5}},
      {"<u2", le<uint16_t>({65535, 5}), DType::i32, {65535, 5}},
      {"|i1", le<int8_t>({-3, 5}), DType::i32, {-3, 5}},
      {"|u1", le<uint8_t>({255, 5}), DType::i32, {255, 5}},
      {"|b1", le<uint8_t>({1, 0}), DType::i1, {1, 0}},
  };
  for (const Case& one : cases)
    for (const int version : {1, 2}) {
      const std::string bytes = npy(one.descr, "(2,)", one.elements, "False", version);
      const auto array = parseNpy(bytesOf(bytes), "a.npy");
      ASSERT_OK(array);
      EXPECT_EQ(array->type(), Type::tensor(one.dtype, {2})) << one.descr;
      EXPECT_EQ(valuesOf(*array), one.values) << one.descr;
    }
  const std::string scalar = npy("<f4", "()", le<float>({4}));
  const auto array = parseNpy(bytesOf(scalar), "a.npy");
  ASSERT_OK(array);
  EXPECT_EQ(array->shape.rank(), 0);
}

TEST(Npy, RefusesWhatItCannotRead) {
  const auto parse = [](const std::string& bytes) { return parseNpy(bytesOf(bytes), "a.npy"); };
  const std::string two = le<float>({1, 2});
  EXPECT_FAILS(parse("hello, world"), "a.npy", "expected a .npy array");
  EXPECT_FAILS(parse(""), "expected a .npy array");
  EXPECT_FAILS(parse(npy(">f4", "(2,)", two)), "expected one of the dtypes", ">f4");
  EXPECT_FAILS(parse(npy("<c8", "(1,)", two)), "<c8");
  EXPECT_FAILS(parse(npy("<f4", "(2,)", two, "True")), "C order", "Fortran");
  EXPECT_FAILS(parse(npy("<f4", "(2,)", two, "False", 3)), "version 1 or 2, got 3");
  EXPECT_FAILS(parse(npy("<f4", "(3,)", two)), "expected 12 bytes", "got 8");
  EXPECT_FAILS(parse(npy("<f4", "(1,)", two)), "expected 4 bytes", "got 8");
  EXPECT_FAILS(parse(npy("<f4", "(-2,)", two)), "-2");
  EXPECT_FAILS(parse(npy("<f4", "(4294967296, 4294967296, 4294967296)", two)), "too many elements");
  EXPECT_FAILS(parse(npy("<f4", "(0, 4294967296, 4294967296)", "")), "too many elements");
  EXPECT_FAILS(parse(npy("<f4", "(99999999999999999999,)", two)), "expected a .npy header");
  EXPECT_FAILS(parse(npy("<f4", "(1,1,1,1,1,1,1,1,2)", two)), "at most 8 dimensions, got 9");
  EXPECT_FAILS(parse(npy("<i8", "(1,)", le<int64_t>({1LL << 31}))), "element 0 is 2147483648", "fit i32");
  EXPECT_FAILS(parse(npy("<u8", "(1,)", le<uint64_t>({~0ull}))), "18446744073709551615");
  EXPECT_FAILS(parse(npy("|b1", "(1,)", "\2")), "0 or 1, got 2");
  const std::string good = npy("<f4", "(2,)", two);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(parse(good.substr(0, size))) << size;
}

TEST_F(Files, NpyWritesWhatNumpyReads) {
  ASSERT_OK(writeNpy(path("a.npy"), arrayOf(DType::f32, {2, 1}, {1.5, -2})));
  const std::string bytes = slurp("a.npy");
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  ASSERT_EQ(bytes.size(), 128u + 8);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\1\0\x76\0", 10));
  EXPECT_EQ(bytes.substr(10, 118), header + std::string(117 - header.size(), ' ') + "\n");
  EXPECT_EQ(bytes.substr(128), le<float>({1.5f, -2}));

  for (const auto& array :
       {arrayOf(DType::i32, {3}, {1, -2, 3}), arrayOf(DType::i1, {2, 2}, {1, 0, 0, 1}),
        arrayOf(DType::f32, {}, {2}), arrayOf(DType::u32, {1}, {4e9}), arrayOf(DType::f32, {0, 3}, {})}) {
    ASSERT_OK(writeNpy(path("a.npy"), array));
    const auto back = readNpy(path("a.npy"));
    ASSERT_OK(back);
    EXPECT_EQ(back->type(), array.type());
    EXPECT_EQ(back->bytes, array.bytes);
  }
  EXPECT_HAS(slurp("a.npy"), "(0, 3)");
  EXPECT_FAILS(readNpy(path("none.npy")), "none.npy", "No such file");
  EXPECT_FAILS(readNpy(directory_), "a directory");
  EXPECT_FAILS(writeNpy(path("none/a.npy"), arrayOf(DType::f32, {}, {1})), "none/a.npy", "No such file");
}

TEST_F(Files, NpzReadsStoredAndDeflatedMembers) {
  const std::string zeros(4000, '\0');
  const std::string file = put("d.npz", zip({{"x.npy", npy("<f4", "(2,)", le<float>({1, 2}))},
                                             {"y.npy", npy("<i4", "(1000,)", zeros), true}},
                                            "a comment"));
  const auto x = readNpz(file, "x"), y = readNpz(file, "y.npy");
  ASSERT_OK(x);
  ASSERT_OK(y);
  EXPECT_EQ(valuesOf(*x), (std::vector<double>{1, 2}));
  EXPECT_EQ(y->type(), Type::tensor(DType::i32, {1000}));
  EXPECT_EQ(valuesOf(*y), std::vector<double>(1000, 0));
  EXPECT_FAILS(readNpz(file, "z"), "d.npz", "got 'z'", "x, y");
  EXPECT_FAILS(readNpz(file, ""), "it has: x, y");
  EXPECT_FAILS(readNpz(put("e.npz", "PK"), "x"), "expected a .npz archive");
  const std::string twice = put("two.npz", zip({{"x.npy", npy("<f4", "(1,)", le<float>({1}))},
                                                {"y.npy", npy("<f4", "(1,)", le<float>({2}))},
                                                {"x.npy", npy("<f4", "(1,)", le<float>({3}))}}));
  EXPECT_FAILS(readNpz(twice, "x"), "two.npz", "there are two members 'x'");
  ASSERT_OK(readNpz(twice, "y"));
  const std::string one =
      put("one.npz", zip({{"README.txt", "text"}, {"x.npy", npy("<f4", "(1,)", le<float>({1}))}}));
  ASSERT_OK(readNpz(one, ""));
  EXPECT_FAILS(readNpz(one, "y"), "got 'y'; it has: x");
  const std::string mac = put(
      "mac.npz", zip({{"x.npy", npy("<f4", "(1,)", le<float>({1}))}, {"__MACOSX/._x.npy", "attributes"}}));
  ASSERT_OK(readNpz(mac, ""));
  EXPECT_FAILS(readNpz(mac, "y"), "got 'y'; it has: x");
}

TEST_F(Files, NpzRefusesDamage) {
  const std::string good = zip({{"x.npy", npy("<f4", "(20,)", std::string(80, 'a')), true}});
  ASSERT_OK(readNpz(put("g.npz", good), ""));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(readNpz(put("t.npz", good.substr(0, size)), "x"));
  // No single damaged byte may crash; damage to the packed bytes or their checksum is found.
  const size_t data = 30 + 5 + 20, directory = good.find("PK\1\2");
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0xff);
    const auto got = readNpz(put("t.npz", bad), "x");
    if (at >= data && at < directory + 28) {
      const bool ignored = (at >= directory + 4 && at < directory + 8) ||  // versions
                           (at >= directory + 12 && at < directory + 16);  // date
      EXPECT_TRUE(ignored || at == directory + 9 || !got) << at;
    }
  }
  std::string claim = good;
  claim.replace(directory + 24, 4, le<uint32_t>({0xfffffff0}));
  EXPECT_FAILS(readNpz(put("t.npz", claim), "x"), "member is broken");
}

std::string tensors(const std::string& header, const std::string& data) {
  return le<uint64_t>({header.size()}) + header + data;
}

Result<Safetensors> parseTensors(const std::string& bytes) {
  const TempFolder folder;
  return readSafetensors(folder.put("m.st", bytes));
}

TEST(Safetensors, ReadsEveryType) {
  const std::string file = tensors(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"h":{"dtype":"F16","shape":[],"data_offsets":[12,14]},)"
      R"("l":{"dtype":"I64","shape":[1],"data_offsets":[14,22]},"t":{"dtype":"BOOL","shape":[2],"data_offsets":[22,24]},)"
      R"("i":{"dtype":"I32","shape":[1],"data_offsets":[24,28]},"z":{"dtype":"F32","shape":[0],"data_offsets":[28,28]}})",
      le<float>({1.5f, -2}) + le<uint16_t>({0x3fc0, 0xc000, 0x3c00}) + le<int64_t>({-9}) +
          le<uint8_t>({1, 0}) + le<int32_t>({7}));
  const auto content = parseTensors(file);
  ASSERT_OK(content);
  std::string order;
  for (const auto& [name, array] : content->tensors) order += name;
  EXPECT_EQ(order, "abhltiz");
  EXPECT_EQ(content->metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  const auto expect = [&](const char* name, DType dtype, Shape shape, const std::vector<double>& values) {
    const HostArray* array = content->find(name);
    ASSERT_NE(array, nullptr) << name;
    EXPECT_EQ(array->type(), Type::tensor(dtype, shape)) << name;
    EXPECT_EQ(valuesOf(*array), values) << name;
  };
  expect("a", DType::f32, {1, 2}, {1.5, -2});
  expect("b", DType::f32, {2}, {1.5, -2});
  expect("h", DType::f32, {}, {1});
  expect("l", DType::i32, {1}, {-9});
  expect("t", DType::i1, {2}, {1, 0});
  expect("i", DType::i32, {1}, {7});
  EXPECT_EQ(content->find("q"), nullptr);
}

TEST(Safetensors, RefusesRealsThatWouldBecomeInfinite) {
  const auto parse = [](std::initializer_list<double> values) {
    return parseTensors(
        tensors(fmt::format("{{\"a\":{{\"dtype\":\"F64\",\"shape\":[{0}],\"data_offsets\":[0,{1}]}}}}",
                            values.size(), values.size() * 8),
                le<double>(values)));
  };
  EXPECT_FAILS(parse({1, -1e300, 1e301}), "m.st: tensor 'a': element 1 is -1e+300, which does not fit f32");
  EXPECT_FAILS(parse({3.4028236e38}), "element 0 is 3.4028236e+38");
  // What stands in the file stays, as does what is rounded to the largest real or to 0.
  const double infinite = std::numeric_limits<double>::infinity();
  const auto kept = parse({infinite, -infinite, std::nan(""), 3.4028234664e38, 1e-300});
  ASSERT_OK(kept);
  const HostArray& a = *kept->find("a");
  EXPECT_EQ(a.at(0), infinite);
  EXPECT_EQ(a.at(1), -infinite);
  EXPECT_TRUE(std::isnan(a.at(2)));
  EXPECT_EQ(a.at(3), std::numeric_limits<float>::max());
  EXPECT_EQ(a.at(4), 0);
}

TEST(Safetensors, RefusesHostileHeaders) {
  const std::string data = le<float>({1, 2});
  const auto entry = [&](const std::string& fields) {
    return parseTensors(tensors("{\"a\":{" + fields + "}}", data));
  };
  const auto at = [&](const std::string& shape, const std::string& offsets) {
    return entry(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets);
  };
  ASSERT_OK(at("[2]", "[0,8]"));
  EXPECT_FAILS(parseTensors(""), "m.st", "malformed", "0 bytes");
  EXPECT_FAILS(parseTensors(zip({{"x.npy", ""}})), "m.st: expected a safetensors file, got another format");
  EXPECT_FAILS(parseTensors(le<uint64_t>({~0ull}) + "{}"), "another format");
  EXPECT_FAILS(parseTensors(le<uint64_t>({3}) + "{}"), "claims 3 bytes");
  EXPECT_FAILS(parseTensors(tensors(std::string(40 << 20, ' '), "")), "claims");
  EXPECT_FAILS(parseTensors(tensors(std::string(1 << 20, '['), "")), "expected a JSON object");
  std::string deep;
  for (int level = 0; level < 100000; ++level) deep += "{\"a\":";
  EXPECT_FAILS(parseTensors(tensors(deep + "1" + std::string(100000, '}'), "")), "expected a JSON object");
  EXPECT_FAILS(parseTensors(tensors("[1]", "")), "expected a JSON object");
  EXPECT_FAILS(parseTensors(tensors("{\"a\xff\":1}", "")), "expected a JSON object");
  EXPECT_FAILS(parseTensors(tensors("{\"a\":5}", "")), "tensor 'a': expected an object");
  EXPECT_FAILS(parseTensors(tensors("{\"__metadata__\":{\"a\":5}}", "")), "metadata 'a'", "string");
  const std::string f = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_FAILS(parseTensors(tensors("{\"a\":" + f + ",\"a\":" + f + "}", le<float>({1}))), "appears twice");
  EXPECT_FAILS(parseTensors(tensors("{\"a\":" + f + ",\"b\":" + f + "}", le<float>({1}))), "'b'",
               "at 4, got 0");
  EXPECT_FAILS(entry(R"("shape":[2],"data_offsets":[0,8])"), "'a'", "dtype");
  EXPECT_FAILS(entry(R"("dtype":"F32","data_offsets":[0,8])"), "shape");
  EXPECT_FAILS(entry(R"("dtype":"F32","shape":[2])"), "data_offsets");
  EXPECT_FAILS(entry(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"), "F8_E4M3");
  EXPECT_FAILS(entry(R"("dtype":"I64","shape":[1],"data_offsets":[0,8])"), "'a'", "fit i32");
  EXPECT_FAILS(at("[-2]", "[0,8]"), "extents of 0 and more");
  EXPECT_FAILS(at("[2.5]", "[0,8]"), "extents of 0 and more");
  EXPECT_FAILS(at("[1e400]", "[0,8]"), "malformed");
  EXPECT_FAILS(at("[18446744073709551615]", "[0,8]"), "out of range");
  EXPECT_FAILS(at("[4294967296,4294967296]", "[0,8]"), "too many elements");
  EXPECT_FAILS(at("[1,1,1,1,1,1,1,1,2]", "[0,8]"), "at most 8 dimensions");
  EXPECT_FAILS(at("[2]", "[8,0]"), "expected 8 bytes");
  EXPECT_FAILS(at("[2]", "[0,12]"), "expected 8 bytes");
  EXPECT_FAILS(at("[2]", "[4,12]"), "at 0, got 4");
  EXPECT_FAILS(at("[2]", "[18446744073709551608,0]"), "expected 8 bytes");
  EXPECT_FAILS(at("[1]", "[0,4]"), "expected 4 bytes of tensors, got 8");
  EXPECT_FAILS(at("[3]", "[0,12]"), "expected 12 bytes of tensors, got 8");
}

TEST(Safetensors, SurvivesAnyDamagedByte) {
  const std::string good =
      tensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", le<float>({1, 2}));
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(parseTensors(good.substr(0, size))) << size;
  for (size_t at = 0; at < good.size() - 8; ++at)
    for (int value = 0; value < 256; ++value) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      if (const auto got = parseTensors(bad)) {
        // Whatever is still read has all of the data.
        ASSERT_EQ(got->tensors.size(), 1u);
        EXPECT_EQ(got->tensors[0].second.bytes.size(), 8u);
      }
    }
}

TEST_F(Files, SafetensorsWritesTheFormat) {
  const Safetensors content{{{"b", arrayOf(DType::f32, {2}, {1.5, -2})},
                             {"a\"\n", arrayOf(DType::i1, {3}, {1, 0, 1})},
                             {"c", arrayOf(DType::i32, {}, {-5})}},
                            {{"step", "7"}}};
  ASSERT_OK(writeSafetensors(path("m"), sourceOf(content.tensors), content.metadata));
  std::string header = R"({"__metadata__":{"step":"7"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("a\"\n":{"dtype":"BOOL","shape":[3],"data_offsets":[8,11]},)"
                       R"("c":{"dtype":"I32","shape":[],"data_offsets":[11,15]}})";
  while (header.size() % 8) header += ' ';
  EXPECT_EQ(slurp("m"),
            tensors(header, le<float>({1.5f, -2}) + "\1" + std::string(1, '\0') + "\1" + le<int32_t>({-5})));
  const auto back = readSafetensors(path("m"));
  ASSERT_OK(back);
  EXPECT_EQ(back->metadata, content.metadata);
  ASSERT_EQ(back->tensors.size(), 3u);
  for (size_t index = 0; index < 3; ++index) {
    EXPECT_EQ(back->tensors[index].first, content.tensors[index].first);
    EXPECT_EQ(back->tensors[index].second.type(), content.tensors[index].second.type());
    EXPECT_EQ(back->tensors[index].second.bytes, content.tensors[index].second.bytes);
  }
}

TEST_F(Files, AFailedWriteKeepsTheOldFile) {
  const HostArray one = arrayOf(DType::f32, {}, {1});
  put("m", "old");
  EXPECT_FAILS(writeSafetensors(path("m"), sourceOf({{"a", one}, {"a", one}}), {}), "m", "'a' twice");
  EXPECT_FAILS(writeSafetensors(path("m"), sourceOf({{"__metadata__", one}}), {}), "distinct tensor names");
  EXPECT_FAILS(writeSafetensors(path("m"), sourceOf({{"\xff", one}}), {}), "UTF-8");
  {
    auto file = AtomicFile::create(path("m"));
    ASSERT_OK(file);
    ASSERT_OK(file->write(bytesOf("half")));
    EXPECT_EQ(slurp("m"), "old");
    EXPECT_EQ(fileCount(), 2u) << "the temporary file is in the same directory";
  }
  EXPECT_EQ(fileCount(), 1u);
  EXPECT_EQ(slurp("m"), "old");
  ASSERT_OK(writeFile(path("m"), bytesOf("new")));
  EXPECT_EQ(slurp("m"), "new");
  EXPECT_EQ(fileCount(), 1u);
}

TEST_F(Files, TemporaryFilesOfOthersAreNoObstacle) {
  // Those that a process with this number left when it was killed, as process 1 of a container is.
  for (int i = 0; i < 200; ++i) put(fmt::format("m.tmp.{}.{}", ::getpid(), i), "half");
  ASSERT_OK(writeFile(path("m"), bytesOf("new")));
  EXPECT_EQ(slurp("m"), "new");
  for (const char* other : {"tmp.1", "m.tmp.1", "m.tmp.npy", "m.tmp.1.2.npy"})
    put(other, "no temporary file");
  auto writing = AtomicFile::create(path("m"));
  ASSERT_OK(writing);
  removeStaleFiles(directory_);
  EXPECT_EQ(fileCount(), 6u) << "what is being written stays";
  ASSERT_OK(writing->write(bytesOf("newer")));
  ASSERT_OK(writing->commit());
  EXPECT_EQ(slurp("m"), "newer");
}

TEST_F(Files, AFileKeepsItsPermissionsAndItsLink) {
  put("m", "old");
  std::filesystem::permissions(path("m"), std::filesystem::perms(0640));
  std::filesystem::create_symlink("m", path("link"));
  ASSERT_OK(writeFile(path("link"), bytesOf("new")));
  EXPECT_EQ(slurp("m"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(std::filesystem::status(path("m")).permissions(), std::filesystem::perms(0640));
  std::filesystem::create_symlink("none", path("dangling"));
  ASSERT_OK(writeFile(path("dangling"), bytesOf("made")));
  EXPECT_EQ(slurp("none"), "made");
  EXPECT_TRUE(std::filesystem::is_symlink(path("dangling")));
}

TEST_F(Files, AnOpenFileWithoutANameIsWrittenDirectly) {
  put("m", "a longer text");
  const Descriptor open(::open(path("m").c_str(), O_RDWR | O_CLOEXEC));
  std::filesystem::remove(path("m"));
  const std::string link = fmt::format("/proc/self/fd/{}", open.get());
  ASSERT_OK(writeFile(link, bytesOf("new")));
  EXPECT_EQ(asText(*readFile(link)), "new");
}

TEST_F(Files, ManyWritersOfOneFileLeaveItWhole) {
  const std::string text(20000, 'x');
  put("m", text);
  std::filesystem::create_symlink("m", path("link"));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (const char* name : {"m", "m", "link", "link"})
    threads.emplace_back([&, name] {
      for (int i = 0; i < 500; ++i) {
        auto file = AtomicFile::create(path(name));
        const bool written = file && file->write(bytesOf(text)) && file->commit();
        if (!written || slurp("m") != text) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(fileCount(), 2u);
}

TEST_F(Files, TheFirstToMakeAFileMakesIt) {
  auto first = AtomicFile::create(path("m")), second = AtomicFile::create(path("m"));
  ASSERT_OK(first);
  ASSERT_OK(second);
  ASSERT_OK(first->write(bytesOf("1")));
  ASSERT_OK(second->write(bytesOf("2")));
  EXPECT_TRUE(*second->commitIfAbsent());
  EXPECT_FALSE(*first->commitIfAbsent());
  EXPECT_EQ(slurp("m"), "2");
}

TEST_F(Files, ASealedFileIsTheEntryOrNothing) {
  const Seal seal{"tgtest01", "a"};
  ASSERT_OK(writeSealed(path("m"), seal, bytesOf("bytes")));
  const std::string good = slurp("m");
  EXPECT_EQ(asText(readSealed(path("m"), seal)), "bytes");
  EXPECT_TRUE(readSealed(path("m"), {"tgtest01", "b"}).empty()) << "another entry";
  EXPECT_TRUE(readSealed(path("m"), {"tgtest02", "a"}).empty()) << "another version";
  for (size_t i = 0; i < good.size(); ++i) {
    put("m", good.substr(0, i));
    EXPECT_TRUE(readSealed(path("m"), seal).empty()) << i;
    std::string bad = good;
    bad[i] ^= 1;
    put("m", bad);
    EXPECT_TRUE(readSealed(path("m"), seal).empty()) << i;
  }
}

TEST_F(Files, SetAsideReplacesNothing) {
  EXPECT_EQ(*setAside(path("m")), "");
  for (const char* name : {"m.old", "m.old.2", "m.old.3"}) {
    put("m", name);
    EXPECT_EQ(*setAside(path("m")), path(name));
    EXPECT_EQ(slurp(name), name);
  }
}

}  // namespace
}  // namespace tg
