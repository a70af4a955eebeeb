// SPDX-License-Identifier: Apache-2.0
// What the interpreter reports of wrong kernels, and that it keeps silent about good ones.
#include <cmath>
#include <regex>

#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

// Wrong kernels: each must be found under every schedule, whatever it happens to compute.

void expectFound(const std::string& text, Memory memory,
                 const std::function<void(const KernelCounters&)>& check) {
  auto module = kernels(text);
  for (const KernelRunOptions& options : schedules()) {
    Memory copy = memory;
    KernelCounters counters = run(verified(*module), copy, options);
    check(counters);
    EXPECT_FALSE(counters.findings.empty());
  }
}

TEST(KernelInterpChecks, OutOfRangeIsCountedAndHarmless) {
  auto module = kernels(R"(kernel @k(%x: buf<2x3xf32, in>, %o: buf<4xf32, out>) workgroup(1) grid(1) {
    %w = tgk.num_workgroups 0 : u32
    %i = tgk.add %w, 2 : u32
    %v = tgk.load %x[0, %i] : f32
    %one = tgk.add %v, 1.0 : f32
    tgk.store %one, %o[%i]
    %j = tgk.cast %w : i32
    %m = tgk.sub %j, 2 : i32
    tgk.store 9.0, %o[%m]
  })");
  for (const KernelRunOptions& options : schedules()) {
    Memory memory{bytesOf<float>({1, 2, 3, 4, 5, 6}), bytesOf<float>({0, 0, 0, 0})};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_EQ(counters.outOfRange, 2);  // row 0 has no column 3, although the bytes exist; and index -1
    EXPECT_EQ(valuesOf<float>(memory[1]), (std::vector<float>{0, 0, 0, 1}));
    ASSERT_EQ(counters.findings.size(), 2u);
    EXPECT_NE(counters.findings[0].find("%x: index [0, 3] is out of range"), std::string::npos)
        << counters.findings[0];
    EXPECT_NE(counters.findings[1].find("%o: index [-1] is out of range"), std::string::npos)
        << counters.findings[1];
  }
}

TEST(KernelInterpChecks, EndsWhereTheListIsFull) {
  auto module = kernels(R"(kernel @loop(%o: buf<1xf32, out>) workgroup(2) grid(3) {
    %s = tgk.shared : buf<4xf32, shared>
    tgk.for %k = 4 to(100000) step(1) {
      tgk.store 1.0, %s[%k]
    }
    tgk.barrier
  }
  kernel @groups(%o: buf<1xf32, out>) workgroup(1) grid(1000) {
    tgk.store 1.0, %o[7]
  })");
  for (const char* name : {"loop", "groups"})
    for (const KernelRunOptions& options : schedules()) {
      Memory memory{Memory::value_type(4)};
      const KernelCounters counters = run(*module->find(ItemKind::kernel, name), memory, options);
      EXPECT_EQ(counters.findings.size(), KernelCounters::kMostFindings);
      EXPECT_LT(counters.outOfRange, 20) << name;  // each invocation ends with the iteration that it is in
    }
}

std::string sharedNeighbour(const std::string& between) {
  return R"(kernel @k(%o: buf<8xu32, out>) workgroup(8) grid(1) {
    %s = tgk.shared : buf<8xu32, shared>
    %l = tgk.local_id 0 : u32
    tgk.store %l, %s[%l]
    )" + between +
         R"(
    %j = tgk.xor %l, 1 : u32
    %v = tgk.load %s[%j] : u32
    tgk.store %v, %o[%l]
  })";
}

TEST(KernelInterpChecks, MissingBarrierIsARace) {
  expectFound(sharedNeighbour(""), {Memory::value_type(32)},
              [](const KernelCounters& c) { EXPECT_GE(c.races, 4); });
  auto module = kernels(sharedNeighbour("tgk.barrier"));
  runAll(verified(*module), {Memory::value_type(32)}, [](const Memory& memory) {
    EXPECT_EQ(valuesOf<uint32_t>(memory[0]), (std::vector<uint32_t>{1, 0, 3, 2, 5, 4, 7, 6}));
  });
}

TEST(KernelInterpChecks, ReadThenWriteIsARace) {
  expectFound(R"(kernel @k(%x: buf<8xf32, inout>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %j = tgk.xor %l, 1 : u32
    %v = tgk.load %x[%j] : f32
    tgk.store %v, %x[%l]
  })",
              {Memory::value_type(32)}, [](const KernelCounters& c) {
                EXPECT_GE(c.races, 4);
                // Both accesses are named with their places, whichever came first.
                const std::regex named(
                    "(tgk.load on %x.* races with tgk.store|tgk.store on %x.* races with "
                    "tgk.load) at .*:[0-9]+:[0-9]+, invocation ([0-9]+), invocation ([0-9]+)");
                for (const std::string& finding : c.findings) {
                  std::smatch parts;
                  ASSERT_TRUE(std::regex_search(finding, parts, named)) << finding;
                  EXPECT_NE(parts[2], parts[3]) << finding;
                }
              });
}

TEST(KernelInterpChecks, WorkgroupsAreNeverOrdered) {
  expectFound(R"(kernel @k(%x: buf<2xf32, inout>) workgroup(1) grid(2) {
    %g = tgk.workgroup_id 0 : u32
    tgk.store 1.0, %x[%g]
    tgk.barrier
    %j = tgk.xor %g, 1 : u32
    %v = tgk.load %x[%j] : f32
  })",
              {Memory::value_type(8)}, [](const KernelCounters& c) { EXPECT_GE(c.races, 1); });
}

TEST(KernelInterpChecks, AtomicBesideLoadIsARace) {
  expectFound(R"(kernel @k(%x: buf<1xi32, inout>, %o: buf<4xi32, out>) workgroup(4) grid(1) {
    %l = tgk.local_id 0 : u32
    tgk.atomic_add 1, %x[0]
    %v = tgk.load %x[0] : i32
    tgk.store %v, %o[%l]
  })",
              {Memory::value_type(4), Memory::value_type(16)},
              [](const KernelCounters& c) { EXPECT_GE(c.races, 3); });
}

TEST(KernelInterpChecks, OverlappingBuffersRaceUnderTwoNames) {
  auto module = kernels(R"(kernel @k(%x: buf<8xf32, in>, %o: buf<8xf32, out>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %v = tgk.load %x[%l] : f32
    tgk.store %v, %o[%l]
  })");
  std::vector<std::byte> bytes(9 * 4);
  for (const KernelRunOptions& options : schedules())
    for (int64_t shift : {0, 4}) {  // element by element in place is fine, one apart is not
      std::vector<KernelBuffer> buffers{{bytes.data(), 32}, {bytes.data() + shift, 32}};
      auto counters = runKernel(verified(*module), buffers, {1, 1, 1}, options);
      ASSERT_TRUE(counters);
      EXPECT_EQ(counters->races > 0, shift != 0);
    }
}

TEST(KernelInterpChecks, OutIsWrittenOnce) {
  expectFound(R"(kernel @k(%o: buf<4xf32, out>) workgroup(4) grid(1) {
    %l = tgk.local_id 0 : u32
    tgk.store 1.0, %o[%l]
    tgk.store 2.0, %o[%l]
  })",
              {Memory::value_type(16)}, [](const KernelCounters& c) {
                EXPECT_EQ(c.rewrites, 4);
                EXPECT_EQ(c.races, 0);
              });
}

TEST(KernelInterpChecks, AStepOfZeroIsLocatedAtItsLoop) {
  auto module = kernels(R"(kernel @k(%n: buf<1xu32, in>) workgroup(1) grid(1) {
    %v = tgk.load %n[0] : u32
    tgk.for %j = 0 to(4) step(2) {
    }
    tgk.for %k = 0 to(4) step(%v) {
    }
  })");
  std::vector<std::byte> bytes(4);
  std::vector<KernelBuffer> buffers{{bytes.data(), 4}};
  const Item& kernel = *module->find(ItemKind::kernel, "k");
  auto result = runKernel(kernel, buffers, {1, 1, 1});
  ASSERT_FALSE(result);
  EXPECT_EQ(locString(result.error().diagnostics().front().loc), locString(kernel.body.ops.back()->loc));
}

TEST(KernelInterpChecks, RefusesWhatItCannotRun) {
  auto module = kernels(R"(kernel @k(%n: buf<1xu32, in>) workgroup(2) grid(1) {
    %l = tgk.local_id 0 : u32
    %z = tgk.eq %l, 0 : bool
    tgk.if %z {
      tgk.barrier
    }
  }
  kernel @s(%n: buf<1xu32, in>) workgroup(2) grid(1) {
    %v = tgk.load %n[0] : u32
    tgk.for %k = 0 to(4) step(%v) {
    }
  })");
  std::vector<std::byte> bytes(4);
  std::vector<KernelBuffer> buffers{{bytes.data(), 4}}, small{{bytes.data(), 3}}, none;
  auto message = [&](const char* name, std::vector<KernelBuffer>& given, std::array<int64_t, 3> grid) {
    auto result = runKernel(*module->find(ItemKind::kernel, name), given, grid);
    return result ? std::string() : result.error().message();
  };
  EXPECT_NE(message("k", buffers, {1, 1, 1}).find("tgk.barrier is reached by some"), std::string::npos);
  EXPECT_NE(message("s", buffers, {1, 1, 1}).find("step of this loop is 0"), std::string::npos);
  EXPECT_NE(message("s", small, {1, 1, 1}).find("%n needs 4 bytes, 3 are given"), std::string::npos);
  EXPECT_NE(message("s", none, {1, 1, 1}).find("1 buffer, 0 are given"), std::string::npos);
  EXPECT_NE(message("s", buffers, {1, 0, 1}).find("grid extent of 0"), std::string::npos);
  EXPECT_NE(
      message("s", buffers, {1 << 29, 2, 1}).find("536870912 x 2 x 1 workgroups, of 2 invocations each"),
      std::string::npos);
  constexpr int64_t kLargest = (int64_t{1} << 32) - 1;  // whose product is more than 64 bits hold
  EXPECT_NE(message("s", buffers, {kLargest, kLargest, kLargest}).find("up to 1073741824 invocations in all"),
            std::string::npos);
}

TEST(KernelInterpChecks, UndefinedMemoryIsNan) {
  auto module = kernels(R"(kernel @k(%o: buf<2xf32, out>) workgroup(1) grid(1) {
    %s = tgk.shared : buf<2xf32, shared>
    %l = tgk.local : buf<2xf32, local>
    %a = tgk.load %s[0] : f32
    %b = tgk.load %l[1] : f32
    tgk.store %a, %o[0]
    tgk.store %b, %o[1]
  })");
  for (const KernelRunOptions& options : schedules()) {
    Memory memory{Memory::value_type(8)};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_EQ(counters.uninitialised, 2);
    for (float value : valuesOf<float>(memory[0])) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(KernelInterpChecks, UnwrittenMemoryIsFound) {
  // Half of the shared memory is written, then read by the other workgroup's invocations or not at all.
  std::string shared = R"(kernel @k(%o: buf<8xf32, out>) workgroup(4) grid(2) {
    %s = tgk.shared : buf<4xf32, shared>
    %l = tgk.local_id 0 : u32
    %i = tgk.global_id 0 : u32
    %w = tgk.workgroup_id 0 : u32
    %mine = tgk.eq %w, WRITER : bool
    tgk.if %mine {
      tgk.store 1.0, %s[%l]
    }
    %v = tgk.load %s[%l] : f32
    tgk.store %v, %o[%i]
  })";
  for (const char* writer : {"0", "1"}) {
    std::string text = shared;
    text.replace(text.find("WRITER"), 6, writer);
    expectFound(text, {Memory::value_type(32)}, [](const KernelCounters& c) {
      EXPECT_EQ(c.uninitialised, 4);
      EXPECT_EQ(c.races, 0);
    });
  }
  expectFound(R"(kernel @k(%o: buf<2xf32, out>) workgroup(2) grid(1) {
    %i = tgk.local_id 0 : u32
    %t = tgk.local : buf<2xf32, local>
    tgk.store 1.0, %t[%i]
    %v = tgk.load %t[0] : f32
    tgk.store %v, %o[%i]
  })",
              {Memory::value_type(8)}, [](const KernelCounters& c) {
                EXPECT_EQ(c.uninitialised, 1);
                ASSERT_FALSE(c.findings.empty());
                EXPECT_NE(c.findings[0].find("tgk.load on %t: element 0 was never written, invocation 1"),
                          std::string::npos)
                    << c.findings[0];
              });
  expectFound(R"(kernel @k(%t: buf<4xi32, tape>) workgroup(2) grid(1) {
    %i = tgk.local_id 0 : u32
    tgk.atomic_add 1, %t[%i]
    %before = tgk.atomic_exchange 1, %t[2] : i32
    tgk.atomic_exchange 1, %t[3]
  })",
              {Memory::value_type(16)}, [](const KernelCounters& c) { EXPECT_EQ(c.uninitialised, 3); });
  expectFound(R"(kernel @k(%o: buf<1xf32, out>) workgroup(1) grid(1) {
    %s = tgk.shared : buf<2x11xi32, shared>
    tgk.exact_add 1.0, %s[0]
    tgk.exact_store 1.0, %s[1]
    %v = tgk.exact_load %s[1] : f32
    tgk.store %v, %o[0]
    %l = tgk.local : buf<1xf32, local>
    tgk.accumulate 1.0, %l[0]
  })",
              {Memory::value_type(4)}, [](const KernelCounters& c) { EXPECT_EQ(c.uninitialised, 2); });
}

TEST(KernelInterpChecks, BarriersOrderBuffersWithinAWorkgroup) {
  auto module = kernels(R"(kernel @k(%x: buf<8xf32, inout>) workgroup(4) grid(2) {
    %w = tgk.workgroup_id 0 : u32
    %l = tgk.local_id 0 : u32
    %base = tgk.mul %w, 4 : u32
    %j = tgk.xor %l, 3 : u32
    %from = tgk.add %base, %j : u32
    %to = tgk.add %base, %l : u32
    %v = tgk.load %x[%from] : f32
    tgk.barrier
    tgk.store %v, %x[%to]
    tgk.barrier
    tgk.accumulate 1.0, %x[%from]
  })");
  runAll(verified(*module), {bytesOf<float>({0, 1, 2, 3, 4, 5, 6, 7})}, [](const Memory& memory) {
    EXPECT_EQ(valuesOf<float>(memory[0]), (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5}));
  });
}

TEST(KernelInterpChecks, AccumulateOfTwoInvocationsRaces) {
  for (const char* launch : {"workgroup(2) grid(1)", "workgroup(1) grid(2)"})
    expectFound(std::string("kernel @k(%a: buf<1xf32, accum>) ") + launch +
                    " {\n tgk.accumulate 1.0, %a[0]\n}",
                {Memory::value_type(4)}, [](const KernelCounters& c) { EXPECT_EQ(c.races, 1); });
  // Beside an atomic of another invocation too, whichever comes first.
  expectFound(R"(kernel @k(%a: buf<1xf32, accum>) workgroup(2) grid(1) {
    %l = tgk.local_id 0 : u32
    %c = tgk.eq %l, 0 : bool
    tgk.if %c {
      tgk.accumulate 1.0, %a[0]
    } else {
      tgk.atomic_add 1.0, %a[0]
    }
  })",
              {Memory::value_type(4)}, [](const KernelCounters& c) { EXPECT_EQ(c.races, 1); });
}

TEST(KernelInterpChecks, AtomicsAndPlainAccessesRaceAcrossWorkgroups) {
  for (const char* plain : {"%v = tgk.load %x[0] : f32", "tgk.store 1.0, %x[0]", "tgk.accumulate 1.0, %x[0]"})
    expectFound(std::string(R"(kernel @k(%x: buf<1xf32, inout>) workgroup(1) grid(2) {
    %w = tgk.workgroup_id 0 : u32
    %c = tgk.eq %w, 0 : bool
    tgk.if %c {
      tgk.atomic_add 1.0, %x[0]
    } else {
      )") + plain + "\n}\n}",
                {Memory::value_type(4)}, [](const KernelCounters& c) { EXPECT_EQ(c.races, 1); });
}

TEST(KernelInterpChecks, ExactAddsAreAtomicAndLoadsAreNot) {
  std::string text = R"(kernel @k(%s: buf<1x11xi32, inout>, %o: buf<2xf32, out>) workgroup(2) grid(1) {
    %l = tgk.local_id 0 : u32
    tgk.exact_add 1.0, %s[0]
    BETWEEN
    %v = tgk.exact_load %s[0] : f32
    tgk.store %v, %o[%l]
  })";
  auto with = [&](const std::string& between) {
    std::string out = text;
    return out.replace(out.find("BETWEEN"), 7, between);
  };
  Memory memory{Memory::value_type(44), Memory::value_type(8)};
  expectFound(with(""), memory, [](const KernelCounters& c) { EXPECT_GE(c.races, 1); });
  auto module = kernels(with("tgk.barrier"));
  runAll(verified(*module), memory, [](const Memory& after) {
    EXPECT_EQ(valuesOf<float>(after[1]), (std::vector<float>{2, 2}));
  });
}

TEST(KernelInterpChecks, OutOfRangeAtomicsAndSumsAreDropped) {
  auto module = kernels(R"(kernel @k(%x: buf<2xi32, inout>, %f: buf<2xf32, accum>, %s: buf<1x11xi32, inout>,
      %o: buf<2xi32, out>) workgroup(1) grid(1) {
    %w = tgk.num_workgroups 0 : u32
    %i = tgk.add %w, 1 : u32
    %a = tgk.atomic_add 1, %x[%i] : i32
    tgk.store %a, %o[0]
    tgk.accumulate 1.0, %f[%i]
    tgk.exact_add 1.0, %s[%w]
    %e = tgk.exact_load %s[%w] : f32
    %n = tgk.bitcast %e : i32
    tgk.store %n, %o[1]
  })");
  for (const KernelRunOptions& options : schedules()) {
    Memory memory{bytesOf<int32_t>({7, 8}), bytesOf<float>({1, 2}), Memory::value_type(44),
                  bytesOf<int32_t>({5, 5})};
    KernelCounters counters = run(verified(*module), memory, options);
    EXPECT_EQ(counters.outOfRange, 4);  // an accumulation counts once
    EXPECT_EQ(valuesOf<int32_t>(memory[0]), (std::vector<int32_t>{7, 8}));
    EXPECT_EQ(valuesOf<float>(memory[1]), (std::vector<float>{1, 2}));
    EXPECT_EQ(memory[2], Memory::value_type(44));
    EXPECT_EQ(valuesOf<int32_t>(memory[3]), (std::vector<int32_t>{0, 0}));
  }
}

TEST(KernelInterpChecks, HalvesOfOneWordAreApart) {
  std::string text = R"(kernel @k(%x: buf<8xf16, inout>) workgroup(8) grid(1) {
    %l = tgk.local_id 0 : u32
    %j = tgk.xor %l, WHOSE : u32
    %v = tgk.load %x[%j] : f32
    %w = tgk.add %v, 1.0 : f32
    tgk.store %w, %x[%l]
  })";
  auto of = [&](const std::string& whose) {
    std::string out = text;
    return out.replace(out.find("WHOSE"), 5, whose);
  };
  auto own = kernels(of("0"));
  runAll(verified(*own), {Memory::value_type(16)},
         [](const Memory& memory) { EXPECT_EQ(valuesOf<uint16_t>(memory[0])[3], 0x3c00); });
  expectFound(of("1"), {Memory::value_type(16)}, [](const KernelCounters& c) { EXPECT_GE(c.races, 4); });
}

TEST(KernelInterpChecks, ChecksCanBeLeftOut) {
  auto module = kernels(sharedNeighbour(""));
  for (KernelRunOptions options : schedules()) {
    options.checks = false;
    Memory memory{Memory::value_type(32)};
    EXPECT_TRUE(run(verified(*module), memory, options).findings.empty());
  }
}

TEST(KernelInterpChecks, RefusesSubgroupsThatCannotBe) {
  auto module = kernels("kernel @k(%n: buf<1xu32, in>) workgroup(2) grid(1) {\n}");
  std::vector<std::byte> bytes(4);
  std::vector<KernelBuffer> buffers{{bytes.data(), 4}};
  for (uint32_t size : {0u, 3u, 256u}) {
    KernelRunOptions options;
    options.subgroupSize = size;
    auto result = runKernel(verified(*module), buffers, {1, 1, 1}, options);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message().find("a subgroup size of"), std::string::npos);
  }
}

}  // namespace
}  // namespace tg::test
