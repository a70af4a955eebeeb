// SPDX-License-Identifier: Apache-2.0
// Buffers that begin at the first element that a kernel reads: how much is cut off, and the same results.
#include "ir/kernel/rewrites.h"

#include <numeric>

#include <fmt/format.h>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

constexpr int64_t kElements = 40;

struct Reads {
  const char* name;
  const char* body;
  int64_t first, extent;  ///< what remains of %x, in elements, at an alignment of 16 bytes
};

const Reads kReads[] = {
    {"a constant behind the sum", "%a = %i + 12 : u32\n %r = tgk.load %x[%a] : u32", 12, 8},
    {"rounded down to the alignment", "%a = %i + 14 : u32\n %r = tgk.load %x[%a] : u32", 12, 10},
    {"the smaller of two",
     "%a = %i + 12 : u32\n %b = %i + 24 : u32\n %p = tgk.load %x[%a] : u32\n %q = tgk.load %x[%b] : u32\n"
     "%r = %p - %q : u32",
     12, 20},
    {"a literal and a sum",
     "%a = %i + 12 : u32\n %p = tgk.load %x[9] : u32\n %q = tgk.load %x[%a] : u32\n %r = %p - %q : u32", 8,
     12},
    {"a sum that wraps around", "%s = %i - 4 : u32\n %a = %s + 8 : u32\n %r = tgk.load %x[%a] : u32", 0,
     kElements},
    {"an index that something else uses too",
     "%a = %i + 12 : u32\n %p = tgk.load %x[%a] : u32\n %r = %p + %a : u32", 12, 8},
    {"behind a guard",
     "%a = %i + 12 : u32\n %c = %i < 3 : bool\n %r = tgk.if %c : u32 {\n %p = tgk.load %x[%a] : u32\n"
     "tgk.yield %p : u32\n } else {\n tgk.yield 5 : u32\n }",
     12, 3},
    {"loads of one sum, which something else uses too",
     "%a = %i + 14 : u32\n %p = tgk.load %x[%a] : u32\n %q = tgk.load %x[%a] : u32\n %s = %p + %q : u32\n"
     "%r = %s + %a : u32",
     12, 10},
    {"no constant", "%r = tgk.load %x[%i] : u32", 0, kElements},
    {"a constant below the alignment", "%a = %i + 3 : u32\n %r = tgk.load %x[%a] : u32", 0, kElements},
    {"an index that depends on data",
     "%v = tgk.load %y[%i] : u32\n %a = %v + 12 : u32\n %r = tgk.load %x[%a] : u32", 0, kElements},
    {"a load without the constant",
     "%a = %i + 12 : u32\n %p = tgk.load %x[%a] : u32\n %q = tgk.load %x[%i] : u32\n %r = %p - %q : u32", 0,
     kElements},
};

TEST(TrimReads, CutsOffWhatIsNotRead) {
  for (const Reads& test : kReads) {
    SCOPED_TRACE(test.name);
    const auto module = kernels(fmt::format(R"(
  kernel @k(%x: buf<{}xu32, in>, %y: buf<8xu32, in>, %o: buf<8xu32, out>) workgroup(8) grid(1) {{
    %i = tgk.local_id 0 : u32
    {}
    tgk.store %r, %o[%i]
  }})",
                                            kElements, test.body));
    ASSERT_TRUE(module);
    Item& kernel = *module->find(ItemKind::kernel, "k");
    verified(*module);
    std::vector<uint32_t> x(kElements), y(8);
    std::iota(x.begin(), x.end(), 100);
    std::iota(y.begin(), y.end(), 2);
    Memory before{bytesOf(x), bytesOf(y), bytesOf(std::vector<uint32_t>(8))};
    run(kernel, before);

    const std::vector<int64_t> first = trimReads(kernel, 16, {false, false, false});
    EXPECT_EQ(first, (std::vector<int64_t>{4 * test.first, 0, 0}));
    EXPECT_EQ(kernel.body.args[0]->type.shape[0], test.extent);
    verified(*module);
    const auto begin = x.begin() + test.first;
    Memory after{bytesOf(std::vector<uint32_t>(begin, begin + test.extent)), bytesOf(y),
                 bytesOf(std::vector<uint32_t>(8))};
    run(kernel, after);
    EXPECT_EQ(valuesOf<uint32_t>(after[2]), valuesOf<uint32_t>(before[2]));
  }
}

/// Two buffers share their sums: each begins elsewhere.
TEST(TrimReads, NamesNewSums) {
  const auto module = kernels(R"(
  kernel @k(%x: buf<40xu32, in>, %z: buf<40xu32, in>, %o: buf<8xu32, out>) workgroup(8) grid(1) {
    %i = tgk.local_id 0 : u32
    %a = %i + 8 : u32
    %b = %i + 20 : u32
    %p = tgk.load %x[%a] : u32
    %q = tgk.load %x[%b] : u32
    %u = tgk.load %z[%b] : u32
    %v = tgk.load %z[%i] : u32
    %s = %p + %q : u32
    %t = %u + %v : u32
    %r = %s * %t : u32
    tgk.store %r, %o[%i]
  })");
  ASSERT_TRUE(module);
  Item& kernel = *module->find(ItemKind::kernel, "k");
  EXPECT_EQ(trimReads(kernel, 16, {false, false, false}), (std::vector<int64_t>{32, 0, 0}));
  verified(*module);
}

TEST(TrimReads, LeavesWhatShallStayWhole) {
  const auto module = kernels(R"(
  kernel @k(%x: buf<40xf32, in>, %y: buf<40xf32, in>, %o: buf<40xf32, out>) workgroup(8) grid(1) {
    %i = tgk.local_id 0 : u32
    %a = %i + 16 : u32
    %v = tgk.load %x[%a] : f32
    %w = tgk.load %y[%a] : f32
    %s = %v + %w : f32
    tgk.store %s, %o[%a]
  })");
  ASSERT_TRUE(module);
  Item& kernel = *module->find(ItemKind::kernel, "k");
  EXPECT_EQ(trimReads(kernel, 16, {true, false, false}), (std::vector<int64_t>{0, 64, 0}));
}

TEST(TrimReads, LeavesWhatIsWritten) {
  const auto module = kernels(R"(
  kernel @k(%x: buf<40xf32, inout>, %o: buf<40xf32, out>, %s: buf<40xf32, accum>) workgroup(8) grid(1) {
    %i = tgk.local_id 0 : u32
    %a = %i + 16 : u32
    %v = tgk.load %x[%a] : f32
    tgk.store %v, %x[%a]
    tgk.store %v, %o[%a]
    tgk.accumulate %v, %s[%a]
  })");
  ASSERT_TRUE(module);
  Item& kernel = *module->find(ItemKind::kernel, "k");
  const std::string before = print(kernel);
  EXPECT_EQ(trimReads(kernel, 16, {false, false, false}), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(print(kernel), before);
}

}  // namespace
}  // namespace tg::test
