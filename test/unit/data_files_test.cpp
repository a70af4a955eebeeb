// SPDX-License-Identifier: Apache-2.0
// Files that are mapped or unpacked: IDX, gzip, raw elements, tokens, and ones larger than memory.
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <numeric>
#include <thread>

#include "runtime/data/spec.h"
#include "runtime/data/table.h"
#include "runtime/data/token_stream.h"
#include "test/unit/data_test_support.h"

namespace tg {
namespace {

std::string gzipped(const std::string& text) { return deflated(text, kGzip); }

std::string bigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx(char type, const std::vector<uint32_t>& dims, const std::string& elements) {
  std::string bytes{'\0', '\0', type, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) bytes += bigEndian(dim);
  return bytes + elements;
}

std::vector<double> rowsOf(const Result<Table>& table, std::vector<int64_t> rows) {
  const auto array = table->gather(rows);
  EXPECT_TRUE(array);
  return array ? valuesOf(*array) : std::vector<double>();
}

Result<HostArray> loadText(const std::string& text, const Type& type) {
  TG_TRY(const auto named, parseInputSpec(text));
  return load(named.second, type, named.first);
}

TEST_F(Files, IdxIsReadPlainAndPacked) {
  const std::string images = idx(8, {3, 1, 2}, "\1\2\3\4\5\xff");
  for (const std::string& file : {put("a-idx3-ubyte", images), put("b-idx3-ubyte.gz", gzipped(images))}) {
    const auto table = Table::openIdx(file);
    ASSERT_OK(table);
    EXPECT_EQ(table->str(), "3x1x2xu8");
    EXPECT_EQ(rowsOf(table, {2, 0, 2}), (std::vector<double>{5, 255, 1, 2, 5, 255}));
    EXPECT_EQ(valuesOf(*table->range(1, 1)), (std::vector<double>{3, 4}));
  }
  const auto floats = Table::openIdx(put("f.idx", idx(0x0D, {1}, bigEndian(0x40490fdb))));
  ASSERT_OK(floats);
  EXPECT_EQ(valuesOf(*floats->all()), (std::vector<double>{static_cast<float>(3.14159274)}));
  const auto shorts = Table::openIdx(put("s.idx", idx(0x0B, {2}, std::string("\x01\x02\xff\xfe", 4))));
  ASSERT_OK(shorts);
  EXPECT_EQ(valuesOf(*shorts->all()), (std::vector<double>{258, -2}));
}

TEST_F(Files, RowsTakeRealsBeyondF32AsInfinite) {
  const auto table = Table::openNpy(put("d.npy", npy("<f8", "(3,)", le<double>({0.5, 1e300, -1e300}))));
  ASSERT_OK(table);
  EXPECT_EQ(rowsOf(table, {2, 0, 1}), (std::vector<double>{-INFINITY, 0.5, INFINITY}));
  EXPECT_FAILS(table->all(), "d.npy", "element 1 is 1e+300, which does not fit f32");
}

TEST_F(Files, BrokenIdxIsRefused) {
  EXPECT_FAILS(Table::openIdx(put("a.idx", "P5 3 2")), "a.idx", "expected an IDX array");
  EXPECT_FAILS(Table::openIdx(put("t.idx", idx(7, {1}, "x"))), "expected an IDX array");
  EXPECT_FAILS(Table::openIdx(put("b.idx", idx(8, {2, 2}, "abc"))), "expected 4 bytes of elements, got 3");
  EXPECT_FAILS(Table::openIdx(put("c.idx", std::string("\0\0\x08\x03\0\0\0\1", 8))), "cut off");
  EXPECT_FAILS(Table::openIdx(put("d.idx", "")), "expected an IDX array");
  const std::string packed = gzipped(idx(8, {4}, "abcd"));
  EXPECT_FAILS(Table::openIdx(put("e.idx.gz", packed.substr(0, packed.size() - 9))), "gzip", "cut off");
  std::string wrong = packed;
  wrong[wrong.size() - 6] ^= 1;  // of the checksum
  EXPECT_FAILS(Table::openIdx(put("f.idx.gz", wrong)), "gzip", "broken");
}

// A small file may unpack without end; its own header says where the end is.
TEST_F(Files, PackedBytesAreUnpackedNoFurtherThanTheHeaderSays) {
  const std::string bomb = gzipped(idx(8, {4}, std::string(64 << 20, '\0')));
  EXPECT_FAILS(Table::openIdx(put("g.idx.gz", bomb)), "g.idx.gz", "unpacks to more than 12 bytes");
  const std::string claim = gzipped(idx(8, {1 << 30, 64}, ""));
  EXPECT_FAILS(Table::openIdx(put("h.idx.gz", claim)), "declares 68719476736 bytes");
}

TEST(Gunzip, StopsAtTheMostThatMayBeThere) {
  const std::string packed = gzipped(std::string(100000, 'q')) + gzipped("abc");
  EXPECT_FAILS(gunzip(bytesOf(packed), "x", 100002), "x", "more than 100002 bytes");
  const auto all = gunzip(bytesOf(packed), "x", 100003);
  ASSERT_OK(all);
  EXPECT_EQ(all->size(), 100003u);
  const auto part = gunzip(bytesOf(packed), "x", 7, /*cuts=*/true);
  ASSERT_OK(part);
  EXPECT_EQ(part->size(), 7u);
}

TEST(Gunzip, TakesAllMembersAndLargeOnes) {
  const std::string large(3 << 20, 'q');
  const auto out = gunzip(bytesOf(gzipped("abc") + gzipped(large)), "x");
  ASSERT_OK(out);
  const std::string text(reinterpret_cast<const char*>(out->data()), out->size());
  EXPECT_EQ(text, "abc" + large);
}

TEST_F(Files, RawElementsTakeTheirTypeFromTheSpec) {
  const std::string file = put("x.bin", le<float>({1, 2, 3, 4, 5, 6}));
  const auto open = Table::openRaw(file, FileType::f32, {Shape::kDynamic, 2});
  ASSERT_OK(open);
  EXPECT_EQ(open->str(), "3x2xf32");
  EXPECT_EQ(rowsOf(open, {2, 0}), (std::vector<double>{5, 6, 1, 2}));
  EXPECT_FAILS(Table::openRaw(file, FileType::f32, {2, 2}), "expected 16 bytes for 2x2xf32, got 24", "'?'");
  EXPECT_FAILS(Table::openRaw(file, FileType::f32, {4, 2}), "expected 32 bytes", "got 24");
  EXPECT_FAILS(Table::openRaw(file, FileType::f32, {Shape::kDynamic, 4}), "rows of 16 bytes, got 24");

  const Type f2 = Type::tensor(DType::f32, {3, 2});
  EXPECT_EQ(valuesOf(*loadText("x=?x2xf32=@" + file, f2)), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(valuesOf(*loadText("x=3x2xf32=@" + file + "/2", f2)),
            (std::vector<double>{.5, 1, 1.5, 2, 2.5, 3}));
  EXPECT_FAILS(loadText("x=?x2xf99=@" + file, f2), "expected a file's type", "f99");
  EXPECT_FAILS(loadText("x=?x?xf32=@" + file, f2), "expected a file's type");
  EXPECT_FAILS(loadText("x=?x2xf32=0", f2), "expected a type");
  EXPECT_FAILS(loadText("x=?x2xf32=@" + file + "/0", f2), "divisor other than 0");
  EXPECT_FAILS(loadText("x=2xf32=@" + path("a.npy"), f2), "its own type");
}

TEST_F(Files, IntegersBecomeFloatsByADivisorOnly) {
  const std::string file = put("x-idx1-ubyte", idx(8, {3}, std::string("\0\x33\xff", 3)));
  const Type f3 = Type::tensor(DType::f32, {3});
  const auto scaled = loadText("x=@" + file + "/255", f3);
  ASSERT_OK(scaled);
  EXPECT_EQ(valuesOf(*scaled), (std::vector<double>{0, 0.2f, 1}));
  EXPECT_EQ(valuesOf(*loadText("x=@" + file, Type::tensor(DType::i32, {3}))),
            (std::vector<double>{0, 51, 255}));
  EXPECT_FAILS(loadText("x=@" + file, f3), "3xu8, but tensor<3xf32> is expected; a divisor makes f32");
  EXPECT_FAILS(loadText("x=@" + file + "/255", Type::tensor(DType::i32, {3})),
               "3xu8 divided into f32, but tensor<3xi32> is expected");
  EXPECT_FAILS(loadText("x=@" + file + "/1e-38", f3), "element 1 is", "which does not fit f32");
  const std::string signs = put("i-idx1-ubyte", idx(9, {3}, std::string("\x80\xff\x7f", 3)));
  EXPECT_EQ(valuesOf(*loadText("x=@" + signs + "/4", f3)), (std::vector<double>{-32, -0.25, 31.75}));
  // The quotient is rounded, not the number or the divisor.
  const std::string times = put("t.npy", npy("<i8", "(3,)", le<int64_t>({10000000000, 20000000000, -1})));
  EXPECT_EQ(valuesOf(*loadText("x=@" + times + "/1e10", f3)), (std::vector<double>{1, 2, -1e-10f}));
  const std::string large = put("l.npy", npy("<f8", "(3,)", le<double>({1e39, 1e300, 0})));
  EXPECT_EQ(valuesOf(*loadText("x=@" + large + "/1e270", f3)), (std::vector<double>{0, 1e30f, 0}));
  EXPECT_FAILS(loadText("x=@" + large + "/1e38", f3), "element 1 is", "which does not fit f32");
  const std::string flags = put("b.npy", npy("|b1", "(3,)", std::string("\0\1\7", 3)));
  EXPECT_FAILS(loadText("x=@" + flags + "/1", f3), "expected booleans stored as 0 or 1, got 7");
  EXPECT_EQ(valuesOf(*loadText("x=@" + put("o.npy", npy("<f4", "(3,)", le<float>({1, 2, 0}))) + "/1e39", f3)),
            (std::vector<double>{1e-39f, 2e-39f, 0}));
  const std::string half = put("h.npy", npy("<f2", "(2,)", le<uint16_t>({0x3c00, 0x3555})));
  EXPECT_EQ(valuesOf(*loadText("x=@" + half, Type::tensor(DType::f16, {2}))),
            (std::vector<double>{1, 0x555p-12}));
}

TEST_F(Files, IntegersOfAnyWidthFitInputsOfIntegers) {
  const Type i2 = Type::tensor(DType::i32, {2}), u2 = Type::tensor(DType::u32, {2});
  const std::string small = put("u.npy", npy("<u4", "(2,)", le<uint32_t>({7, 2147483647}))),
                    high = put("h.npy", npy("<u4", "(2,)", le<uint32_t>({7, 2147483648}))),
                    wide = put("w.npy", npy("<i8", "(2,)", le<int64_t>({4294967295, 0}))),
                    negative = put("n.npy", npy("|i1", "(2,)", std::string("\1\xff", 2)));
  EXPECT_EQ(valuesOf(*loadText("x=@" + small, i2)), (std::vector<double>{7, 2147483647}));
  EXPECT_EQ(valuesOf(*loadText("x=@" + high, u2)), (std::vector<double>{7, 2147483648}));
  EXPECT_EQ(valuesOf(*loadText("x=@" + wide, u2)), (std::vector<double>{4294967295, 0}));
  EXPECT_FAILS(loadText("x=@" + high, i2), "element 1 is 2147483648, which does not fit i32");
  EXPECT_FAILS(loadText("x=@" + wide, i2), "element 0 is 4294967295, which does not fit i32");
  EXPECT_FAILS(loadText("x=@" + negative, u2), "element 1 is -1, which does not fit u32");
}

/// A file whose bytes take no disk but at the places written.
std::string sparse(const std::string& path, int64_t size,
                   const std::vector<std::pair<int64_t, std::string>>& at) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  EXPECT_EQ(::ftruncate(file, size), 0);
  for (const auto& [place, bytes] : at)
    EXPECT_EQ(::pwrite(file, bytes.data(), bytes.size(), place), static_cast<ssize_t>(bytes.size()));
  ::close(file);
  return path;
}

TEST_F(Files, AFileOfThreeGiBIsReadInPlaces) {
  constexpr int64_t kSize = int64_t{3} << 30, kRow = 16;
  const auto raw = Table::openRaw(sparse(path("big.bin"), kSize, {{kSize - kRow, le<float>({1, 2, 3, 4})}}),
                                  FileType::f32, {Shape::kDynamic, 4});
  ASSERT_OK(raw);
  ASSERT_EQ(raw->rows(), kSize / kRow);
  EXPECT_EQ(rowsOf(raw, {0, raw->rows() - 1}), (std::vector<double>{0, 0, 0, 0, 1, 2, 3, 4}));

  const std::string header = npy("<f4", "(805306368,)", "");
  const auto array = Table::openNpy(
      sparse(path("big.npy"), kSize + static_cast<int64_t>(header.size()),
             {{0, header}, {kSize + static_cast<int64_t>(header.size()) - 4, le<float>({7})}}));
  ASSERT_OK(array);
  EXPECT_EQ(rowsOf(array, {805306367, 5}), (std::vector<double>{7, 0}));
}

TEST_F(Files, AFileThatShrinksWhileItIsReadIsAnError) {
  const std::string file = put("x.bin", std::string(1 << 22, 'a'));
  const auto table = Table::openRaw(file, FileType::u8, {Shape::kDynamic, 4096});
  ASSERT_OK(table);
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) {
      std::filesystem::resize_file(file, 1 << 14);
      std::filesystem::resize_file(file, 1 << 22);
    }
  });
  std::vector<int64_t> rows(1024);
  for (int64_t row = 0; row < 1024; ++row) rows[static_cast<size_t>(row)] = row * 389 % 1024;
  int failed = 0;
  for (int i = 0; i < 200; ++i) failed += !table->gather(rows);
  stop = true;
  other.join();
  EXPECT_GT(failed, 0);
}

TEST_F(Files, ManyRowsAreConvertedInPieces) {
  constexpr int64_t kRows = 100, kRow = 10'000;
  std::string bytes;
  for (int64_t i = 0; i < kRows * kRow; ++i) bytes += static_cast<char>(i * 7919 >> 5);
  const auto table = Table::openRaw(put("x.bin", bytes), FileType::u8, {Shape::kDynamic, kRow});
  ASSERT_OK(table);
  const Table quotients = table->giving({.dtype = {}, .divisor = 2});
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < kRows; ++row) rows.push_back(row * 37 % kRows);
  auto all = quotients.gather(rows);
  ASSERT_OK(all);
  EXPECT_EQ(all->type(), Type::tensor(DType::f32, {kRows, kRow}));
  for (int64_t i = 0; i < kRows * kRow; ++i) {
    const auto byte = static_cast<uint8_t>(
        bytes[static_cast<size_t>(rows[static_cast<size_t>(i / kRow)] * kRow + i % kRow)]);
    ASSERT_EQ(all->at(i), byte / 2.0) << i;
  }
  const std::byte* memory = all->bytes.data();
  const auto again = quotients.gather(rows, std::move(all->bytes));
  ASSERT_OK(again);
  EXPECT_EQ(again->bytes.data(), memory);
  EXPECT_EQ(again->bytes, quotients.gather(rows)->bytes);

  std::string longs(kRows * kRow * 8, '\0');
  longs[(95 * kRow + 3) * 8 + 5] = 1;
  const auto wide = Table::openRaw(put("y.bin", longs), FileType::i64, {Shape::kDynamic, kRow});
  ASSERT_OK(wide);
  std::ranges::sort(rows);
  EXPECT_FAILS(wide->gather(rows), "element 950003 is 1099511627776, which does not fit i32");
}

TEST_F(Files, AFileThatShrinksIsAnError) {
  const std::string file = put("x.bin", std::string(1 << 16, 'a'));
  const auto table = Table::openRaw(file, FileType::u8, {Shape::kDynamic});
  ASSERT_OK(table);
  std::filesystem::resize_file(file, 10);
  EXPECT_FAILS(table->gather(std::vector<int64_t>{60000}), "x.bin", "changed while in use",
               "had 65536 bytes and has 10 now");
  EXPECT_FAILS(table->range(0, 5), "changed while in use");
  EXPECT_FAILS(Table::openRaw(path("none.bin"), FileType::u8, {1}), "none.bin", "No such file");
  EXPECT_FAILS(Table::openRaw(directory_, FileType::u8, {1}), "a directory");
}

TEST_F(Files, RowsThatAreHeldStayAsTheyWere) {
  const std::string file = put("h.npy", npy("<f4", "(3,)", le<float>({1, 2, 3})));
  auto held = Table::openNpy(file), read = Table::openNpy(file);
  ASSERT_OK(held);
  ASSERT_OK(read);
  ASSERT_TRUE(held->hold(12));
  ASSERT_TRUE(read->hold(11)) << "a byte too large";
  put("h.npy", npy("<f4", "(3,)", le<float>({1, 5, 3})));
  EXPECT_EQ(rowsOf(held, {2, 1}), (std::vector<double>{3, 2}));
  EXPECT_EQ(rowsOf(read, {2, 1}), (std::vector<double>{3, 5}));
  std::filesystem::resize_file(file, 20);
  EXPECT_FAILS(held->gather(std::vector<int64_t>{0}), "h.npy", "changed while in use");
  EXPECT_FAILS(held->range(0, 1), "changed while in use");
}

/// Bytes of this process in memory.
int64_t residentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_F(Files, ContentsOfAPipeAreHeldOnce) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  constexpr size_t kSize = size_t{64} << 20;
  std::thread writer([&] { std::ofstream(pipe) << std::string(kSize, 'a'); });
  auto table = Table::openRaw(pipe, FileType::u8, {Shape::kDynamic});
  writer.join();
  ASSERT_OK(table);
  ::malloc_trim(0);  // a copy would take new pages
  const int64_t before = residentBytes();
  ASSERT_GT(before, 0);
  ASSERT_TRUE(table->hold(kSize));
  EXPECT_LT(residentBytes() - before, static_cast<int64_t>(kSize / 2));
  EXPECT_EQ(rowsOf(table, {kSize - 1}), (std::vector<double>{'a'}));
}

TEST_F(Files, TokenFilesFollowOneAnother) {
  put("s_1.bin", tokenFile({4, 5}));
  put("s_0.bin", tokenFile({1, 2, 50256}));
  const std::string last = put("t.bin", tokenFile({9}));
  const auto stream = TokenStream::ofTokenFiles(path("s_*.bin") + "," + last);
  ASSERT_OK(stream);
  ASSERT_EQ(stream->size(), 6);
  std::vector<int32_t> all(6), part(3);
  ASSERT_TRUE(stream->read(0, all));
  EXPECT_EQ(all, (std::vector<int32_t>{1, 2, 50256, 4, 5, 9}));
  ASSERT_TRUE(stream->read(2, part));
  EXPECT_EQ(part, (std::vector<int32_t>{50256, 4, 5}));
  EXPECT_EQ(stream->vocabulary(), nullptr);
}

TEST_F(Files, BrokenTokenFilesAreRefused) {
  const auto open = [&](const std::string& bytes) { return TokenStream::ofTokenFiles(put("t.bin", bytes)); };
  EXPECT_FAILS(open("hello"), "t.bin", "20240520", "another format");
  EXPECT_FAILS(open(tokenFile({1}, 20240801)), "20240520");
  EXPECT_FAILS(open(tokenFile({1}, 20240520, 2)), "version 1", "got 2");
  EXPECT_FAILS(open(tokenFile({1, 2}).substr(0, 1027)), "declares 2 tokens, but 3 bytes");
  EXPECT_FAILS(open(tokenFile({1}) + "xx"), "declares 1 token, but 4 bytes");
  EXPECT_FAILS(TokenStream::ofTokenFiles(path("none_*.bin")), "none_*.bin", "No such file");
}

}  // namespace
}  // namespace tg
