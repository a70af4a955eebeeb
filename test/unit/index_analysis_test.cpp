// SPDX-License-Identifier: Apache-2.0
// What the analysis of kernel indices must prove, and must not.
#include "ir/kernel/index_analysis.h"

#include "ir/kernel/index_decode.h"
#include "test/unit/kernel_text.h"

#include <fmt/format.h>

namespace tg::test {
namespace {

/// One kernel and what is known of it. Accesses and values are found by name.
struct Analysed {
  std::unique_ptr<Module> module;
  const Item* kernel = nullptr;
  std::unique_ptr<IndexAnalysis> analysis;

  explicit Analysed(const std::string& text, const std::vector<Shape>& shapes = {}) : module(kernels(text)) {
    if (!module) return;
    kernel = &verified(*module);
    analysis = std::make_unique<IndexAnalysis>(*kernel, shapes.empty() ? nullptr : &shapes);
  }
  /// The accesses of a buffer, in text order.
  std::vector<const Op*> of(const std::string& buffer) const {
    std::vector<const Op*> out;
    walk(kernel->body, [&](Op& op) {
      const Operand* element = elementOf(op);
      if (element && element->value->name == buffer) out.push_back(&op);
    });
    return out;
  }
  bool lanePrivate(const std::string& buffer) const { return analysis->lanePrivate(of(buffer)); }
  bool repeats(const std::string& buffer) const {
    auto stores = of(buffer);
    std::erase_if(stores, [](const Op* op) { return op->code != Opcode::k_store; });
    return analysis->certainlyRepeats(stores);
  }
  bool inRange(const std::string& buffer) const {
    for (const Op* access : of(buffer))
      if (!analysis->inRange(*access)) return false;
    return true;
  }
  const Value* value(const std::string& name) const {
    const Value* out = nullptr;
    walk(kernel->body, [&](Op& op) {
      for (const auto& result : op.results)
        if (result->name == name) out = result.get();
      for (const auto& region : op.regions)
        for (const auto& arg : region->args)
          if (arg->name == name) out = arg.get();
    });
    return out;
  }
  /// "lo..hi" of the last value of a name.
  std::string range(const std::string& name) const {
    auto range = analysis->range(Operand::of(const_cast<Value*>(value(name))));
    return fmt::format("{}..{}", range.lo, range.hi);
  }
  std::optional<int64_t> trips() const {
    const Op* loop = nullptr;
    walk(kernel->body, [&](Op& op) {
      if (op.code == Opcode::k_for) loop = &op;
    });
    return analysis->tripCount(*loop);
  }
};

/// A kernel over %x (in), %y (inout) and %idx, with the ids of axis 0 at hand; workgroups of 64.
std::string around(const std::string& body, const std::string& grid = "4", const std::string& y = "?xf32",
                   const std::string& workgroup = "64") {
  return "kernel @k(%x: buf<?xf32, in>, %idx: buf<?xu32, in>, %y: buf<" + y + ", inout>) workgroup(" +
         workgroup + ") grid(" + grid + R"() {
  %i = tgk.global_id 0 : u32
  %l = tgk.local_id 0 : u32
  %w = tgk.workgroup_id 0 : u32
  %n = tgk.dim %y, 0 : u32
  %xn = tgk.dim %x, 0 : u32
)" + body +
         "\n}";
}
const char* const kOpenGrid = "ceildiv(dim(%y, 0), 64)";

struct Pattern {
  const char* name;
  const char* body;
  bool lanePrivate, repeats;
  const char* y = "?xf32";
  const char* grid = "4";
  const char* workgroup = "64";
};

const Pattern kPatterns[] = {
    {"global", "tgk.store 1.0, %y[%i]", true, false},
    {"globalOpen", "tgk.store 1.0, %y[%i]", true, false, "?xf32", kOpenGrid},
    {"rowOfGroup", "tgk.store 1.0, %y[%w, %l]", true, false, "?x256xf32"},
    {"timeFirst", "tgk.for %t = 0 to(%n) {\n tgk.store 1.0, %y[%t, %i]\n }", true, false, "?x256xf32",
     kOpenGrid},
    {"strided", "%a = tgk.mul %i, 4 : u32\n tgk.store 1.0, %y[%a]", true, false},
    {"fours",
     "%a = tgk.mul %i, 4 : u32\n %b = tgk.add %a, 1 : u32\n tgk.store 1.0, %y[%a]\n tgk.store 1.0, %y[%b]",
     true, false, "4096xf32"},
    {"reversed", "%m = tgk.sub %n, 1 : u32\n %a = tgk.sub %m, %i : u32\n tgk.store 1.0, %y[%a]", true, false,
     "?xf32", kOpenGrid},
    {"laneStrided", "tgk.for %k = %l to(1000) step(64) {\n tgk.store 1.0, %y[%w, %k]\n }", true, false,
     "?x1000xf32"},
    {"laneStridedFlat",
     "%b = tgk.mul %w, 1000 : u32\n tgk.for %k = %l to(1000) step(64) {\n %a = tgk.add %b, %k : u32\n"
     " tgk.store 1.0, %y[%a]\n }",
     true, false, "?xf32", kOpenGrid},
    {"grouped256",
     "%b = tgk.mul %w, 256 : u32\n tgk.for %k = 0 to(4) {\n %c = tgk.mul %k, 64 : u32\n"
     " %d = tgk.add %b, %c : u32\n %a = tgk.add %d, %l : u32\n tgk.store 1.0, %y[%a]\n }",
     true, false, "?xf32", kOpenGrid},
    {"quotientAndRemainder",
     "%q = tgk.div %i, 10 : u32\n %r = tgk.mod %i, 10 : u32\n tgk.store 1.0, %y[%r, %q]", true, false,
     "10x900xf32", kOpenGrid},
    {"bits", "%q = tgk.shr %i, 3 : u32\n %r = tgk.and %i, 7 : u32\n tgk.store 1.0, %y[%q, %r]", true, false,
     "?x8xf32", kOpenGrid},
    {"openRows", "%q = tgk.div %i, %xn : u32\n tgk.store 1.0, %y[%q, %i]", true, false, "?x256xf32"},
    {"laneZero", "%z = tgk.eq %l, 0 : bool\n tgk.if %z {\n tgk.store 1.0, %y[%w]\n }", true, false},
    {"invocationZero",
     "%z = tgk.eq %i, 0 : bool\n tgk.if %z {\n tgk.for %k = 0 to(9) {\n tgk.store 1.0, %y[%k]\n }\n }", true,
     false, "?xf32", kOpenGrid},
    {"uniformLane",
     "%f = tgk.load %idx[0] : u32\n %z = tgk.eq %i, %f : bool\n tgk.if %z {\n"
     " tgk.store 1.0, %y[0]\n }",
     true, false},
    {"loadedBase",
     "%f = tgk.load %idx[%w] : u32\n %a = tgk.add %f, %l : u32\n %g = tgk.le %f, 1000 : bool\n tgk.if %g {\n"
     " tgk.store 1.0, %y[%w, %a]\n }",
     true, false, "?x256xf32"},
    {"signed", "%c = tgk.cast %i : i32\n %a = tgk.sub 300, %c : i32\n tgk.store 1.0, %y[%a]", true, false},
    {"induction",
     "%e = tgk.for %k = 0 to(4) iter_args(%p = %i) : u32 {\n tgk.store 1.0, %y[%p]\n"
     " %q = tgk.add %p, 256 : u32\n tgk.yield %q\n }",
     true, false},
    {"notNot", "%c = tgk.ne %l, 3 : bool\n %z = tgk.not %c : bool\n tgk.if %z {\n tgk.store 1.0, %y[%w]\n }",
     true, false},
    {"elseOfNe", "%c = tgk.ne %l, 3 : bool\n tgk.if %c {\n } else {\n tgk.store 1.0, %y[%w]\n }", true,
     false},
    {"oneInvocation", "tgk.store 1.0, %y[0]", true, false, "?xf32", "1", "1"},
    {"sameLaneTwice", "tgk.store 1.0, %y[%i]\n tgk.store 2.0, %y[%i]", true, true, "512xf32"},
    {"everyIteration", "tgk.for %k = 0 to(3) {\n tgk.store 1.0, %y[%i]\n }", true, true, "512xf32"},

    {"halves", "%a = tgk.div %i, 2 : u32\n tgk.store 1.0, %y[%a]", false, true, "512xf32"},
    {"gathered", "%a = tgk.load %idx[%i] : u32\n tgk.store 1.0, %y[%a]", false, false},
    {"neighbour", "%a = tgk.add %i, 1 : u32\n tgk.store 1.0, %y[%i]\n tgk.store 1.0, %y[%a]", false, true,
     "512xf32"},
    {"constant", "tgk.store 1.0, %y[0]", false, true},
    {"constantOpen", "tgk.store 1.0, %y[0]", false, true, "?xf32", kOpenGrid},
    {"groupOnly", "tgk.store 1.0, %y[%w]", false, true, "4xf32"},
    {"laneOnly", "tgk.store 1.0, %y[%l]", false, true, "64xf32"},
    {"laneOnlyOpen", "tgk.store 1.0, %y[%l]", false, false, "64xf32", kOpenGrid},
    {"wrapped", "%a = tgk.mul %i, 2147483648 : u32\n tgk.store 1.0, %y[%a]", false, true},
    {"wrapsAround", "%a = tgk.mul %i, 2147483648 : u32\n tgk.store 1.0, %y[%a]", false, true, "?xf32", "1"},
    {"otherStride", "%a = tgk.mul %i, 2 : u32\n tgk.store 1.0, %y[%i]\n tgk.store 1.0, %y[%a]", false, true,
     "512xf32"},
    {"shortRows", "%b = tgk.mul %w, 63 : u32\n %a = tgk.add %b, %l : u32\n tgk.store 1.0, %y[%a]", false,
     true, "512xf32"},
    {"overlappingTime",
     "tgk.for %k = 0 to(5) {\n %b = tgk.mul %i, 4 : u32\n %a = tgk.add %b, %k : u32\n tgk.store 1.0, "
     "%y[%a]\n }",
     false, true, "2048xf32"},
    {"firstLanes", "%c = tgk.lt %l, 2 : bool\n tgk.if %c {\n tgk.store 1.0, %y[%w]\n }", false, true,
     "4xf32"},
    {"dataSaysWho",
     "%f = tgk.load %idx[%l] : u32\n %z = tgk.eq %f, 0 : bool\n tgk.if %z {\n"
     " tgk.store 1.0, %y[%w]\n }",
     false, false},
    {"twoLanes",
     "%c = tgk.eq %l, 0 : bool\n tgk.if %c {\n tgk.store 1.0, %y[%w]\n }\n %d = tgk.eq %l, 1 : bool\n"
     " tgk.if %d {\n tgk.store 1.0, %y[%w]\n }",
     false, true, "4xf32"},
    {"mutableLane",
     "%f = tgk.load %y[0] : f32\n %u = tgk.cast %f : u32\n %z = tgk.eq %i, %u : bool\n tgk.if %z {\n"
     " tgk.store 1.0, %y[1]\n }",
     false, false},
    {"butterfly", "%a = tgk.xor %l, 1 : u32\n tgk.store 1.0, %y[%w, %l]\n tgk.store 1.0, %y[%w, %a]", false,
     true, "4x64xf32"},
};

TEST(IndexAnalysis, Patterns) {
  for (const Pattern& pattern : kPatterns) {
    SCOPED_TRACE(pattern.name);
    Analysed k(around(pattern.body, pattern.grid, pattern.y, pattern.workgroup));
    ASSERT_TRUE(k.analysis);
    EXPECT_EQ(k.lanePrivate("y"), pattern.lanePrivate);
    EXPECT_EQ(k.repeats("y"), pattern.repeats);
  }
}

TEST(IndexAnalysis, Ranges) {
  Analysed k(around(R"(
  %min = tgk.min %i, 10 : u32
  %max = tgk.max %l, 60 : u32
  %mod = tgk.mod %i, 10 : u32
  %shr = tgk.shr %i, 3 : u32
  %and = tgk.and %i, 12 : u32
  %wrap = tgk.sub %l, 1 : u32
  %back = tgk.add %wrap, 1 : u32
  %signed = tgk.cast %l : i32
  %minus = tgk.sub %signed, 1 : i32
  %loaded = tgk.load %idx[%l] : u32
  %byte = tgk.and %loaded, 255 : u32
  %low = tgk.lt %loaded, 7 : bool
  %sel = tgk.select %low, %l, 100 : u32
  %cast = tgk.cast %low : u32
  %prod = tgk.mul %mod, %min : u32
  %not = tgk.not %l : u32
  %whole = tgk.mul %loaded, 2 : u32
  %zeros = tgk.clz %l : u32
  %lim = tgk.sub_sat %l, 60 : u32
  %nw = tgk.num_workgroups 0 : u32
  %branch = tgk.if %low : u32 {
    %seven = tgk.add %loaded, 1 : u32
    tgk.yield %seven
  } else {
    tgk.yield 20
  }
  %two = tgk.sub %l, 2 : u32
  %below = tgk.lt %two, %loaded : bool
  tgk.if %below {
    %anything = tgk.add %l, 0 : u32
  }
  %a = tgk.le %i, 5 : bool
  %b = tgk.gt %i, 2 : bool
  %c = tgk.and %a, %b : bool
  tgk.if %c {
    %guarded = tgk.add %i, 0 : u32
    %q = tgk.div %i, 2 : u32
    tgk.for %k = %i to(12) step(3) {
      tgk.store 1.0, %y[%k]
    }
  } else {
    %rest = tgk.add %i, 0 : u32
  }
)"));
  const std::pair<const char*, const char*> expected[] = {
      {"i", "0..255"},
      {"w", "0..3"},
      {"n", "1..2147483647"},
      {"min", "0..10"},
      {"max", "60..63"},
      {"mod", "0..9"},
      {"shr", "0..31"},
      {"and", "0..12"},
      {"back", "0..63"},
      {"minus", "-1..62"},
      {"byte", "0..255"},
      {"sel", "0..100"},
      {"cast", "0..1"},
      {"prod", "0..90"},
      {"zeros", "0..32"},
      {"lim", "0..3"},
      {"nw", "4..4"},
      {"anything", "0..63"},
      {"branch", "1..20"},
      {"guarded", "3..5"},
      {"q", "1..2"},
      {"k", "3..11"},
      {"rest", "0..255"},
      {"wrap", "0..4294967295"},
      {"loaded", "0..4294967295"},
      {"whole", "0..4294967295"},
      {"not", "4294967232..4294967295"},
  };
  for (const auto& [name, range] : expected) EXPECT_EQ(k.range(name), range) << name;
}

TEST(IndexAnalysis, RangesOfNegativeNumbers) {
  Analysed k(around(R"(
  %loaded = tgk.load %idx[%l] : u32
  %any = tgk.bitcast %loaded : i32
  %masked = tgk.and %any, 3 : i32
  %count = tgk.cast %masked : u32
  %signed = tgk.cast %l : i32
  %low = tgk.sub %signed, 9 : i32
  %half = tgk.div %low, 2 : i32
  %rest = tgk.mod %low, 8 : i32
  %few = tgk.mod %low, 100 : i32
  %size = tgk.abs %low : i32
  %anysize = tgk.abs %any : i32
  %anyrest = tgk.mod %any, 5 : i32
  %byany = tgk.mod %low, %any : i32
)"));
  const std::pair<const char*, const char*> expected[] = {
      {"masked", "0..3"},
      {"count", "0..3"},
      {"low", "-9..54"},
      {"half", "-4..27"},
      {"rest", "-7..7"},
      {"few", "-9..54"},
      {"size", "0..54"},
      {"anyrest", "-4..4"},
      {"anysize", "-2147483648..2147483647"},
      {"byany", "-2147483648..2147483647"},
  };
  for (const auto& [name, range] : expected) EXPECT_EQ(k.range(name), range) << name;
}

TEST(IndexAnalysis, ShapesSettleExtentsAndTheGrid) {
  std::string text = around("%m = tgk.mul %n, 3 : u32\n tgk.store 1.0, %y[%m]", kOpenGrid);
  EXPECT_EQ(Analysed(text).range("m"), "0..4294967295");
  Analysed k(text, {{7}, {9}, {100}});
  EXPECT_EQ(k.range("n"), "100..100");
  EXPECT_EQ(k.range("xn"), "7..7");
  EXPECT_EQ(k.range("w"), "0..1");
  EXPECT_EQ(k.range("i"), "0..127");
  EXPECT_EQ(k.range("m"), "300..300");
}

TEST(IndexAnalysis, TripCounts) {
  auto trips = [](const std::string& loop, const std::string& before = "") {
    return Analysed(around(before + "tgk.for %k = " + loop + " {\n tgk.store 1.0, %y[%k]\n }")).trips();
  };
  EXPECT_EQ(trips("0 to(10)"), 10);
  EXPECT_EQ(trips("0 to(10) step(3)"), 4);
  EXPECT_EQ(trips("10 to(3)"), 0);
  EXPECT_EQ(trips("%l to(64)"), 64);
  EXPECT_EQ(trips("%l to(1000) step(64)"), 16);
  EXPECT_EQ(trips("0 to(%i)"), 255);
  EXPECT_EQ(trips("%i to(%e)", "%e = tgk.add %i, 7 : u32\n"), 7);
  EXPECT_EQ(trips("0 to(%e)", "%e = tgk.min %n, 32 : u32\n"), 32);
  EXPECT_EQ(trips("0 to(%e)", "%f = tgk.load %idx[0] : u32\n %e = tgk.min %f, 32 : u32\n"), 32);
  // The start is any number: the limit may wrap around, and then the loop ends at once.
  const std::string any =
      "%f = tgk.load %idx[0] : u32\n %g = tgk.load %idx[1] : u32\n %e = tgk.add %f, 32 : u32\n";
  EXPECT_EQ(trips("%f to(%e)", any), 32);
  EXPECT_EQ(trips("%f to(%h)", any + "%h = tgk.min %g, %e : u32\n"), 32);
  EXPECT_EQ(trips("%f to(%h)",
                  any + "%d = tgk.sub %g, %f : u32\n %c = tgk.min %d, 9 : u32\n %h = tgk.add %f, %c : u32\n"),
            9);
  EXPECT_EQ(trips("%f to(%h)", any + "%m = tgk.min %g, 80 : u32\n %h = tgk.max %f, %m : u32\n"), 80);
  EXPECT_EQ(trips("%f to(%h)", any + "%h = tgk.max %g, %e : u32\n"), std::nullopt);
  EXPECT_EQ(trips("%f to(%e) step(2)", any), std::nullopt);  // the index may pass the end and start again
  EXPECT_EQ(trips("%e to(%f)", any), std::nullopt);
  EXPECT_EQ(trips("0 to(%n)"), std::nullopt);
  EXPECT_EQ(trips("%l to(%n) step(64)"), std::nullopt);
  EXPECT_EQ(trips("0 to(%f)", "%f = tgk.load %idx[0] : u32\n"), std::nullopt);
  EXPECT_EQ(trips("0 to(%m) step(64)", "%m = tgk.sub %n, 1 : u32\n"), std::nullopt);
  EXPECT_EQ(trips("0 to(4294967295) step(2)"), std::nullopt);  // passes the end and starts again
  EXPECT_EQ(trips("0 to(100) step(%s)", "%s = tgk.add %l, 5 : u32\n"), 20);
  // The limit is 2^32 / 16 where the difference wraps around, which is no bound but the type's.
  const std::string below = "%d = tgk.sub 16, %l : u32\n";
  EXPECT_EQ(trips("0 to(%d)", below), std::nullopt);
  EXPECT_EQ(trips("0 to(%e)", below + "%e = tgk.div %d, 16 : u32\n"), std::nullopt);
  EXPECT_EQ(trips("0 to(%e)", "%e = tgk.mul %l, 1073741824 : u32\n"), std::nullopt);
  EXPECT_EQ(trips("0 to(%e)", "%f = tgk.load %idx[0] : u32\n %e = tgk.add_sat %f, 5 : u32\n"), std::nullopt);
}

/// A select is bounded by each operand where its condition lets it through.
TEST(IndexAnalysis, Selects) {
  auto range = [](const std::string& select, const std::string& before = "") {
    return Analysed(around(before + "%r = tgk.select " + select + " : u32\ntgk.store 1.0, %y[%r]"))
        .range("r");
  };
  // How far the place in the workgroup is below a width, in elements and in trips of 16.
  const std::string below = "%c = tgk.lt %l, 16 : bool\n%d = tgk.sub 16, %l : u32\n";
  EXPECT_EQ(range("%c, %d, 0", below), "0..16");
  EXPECT_EQ(range("%c, %q, 0", below + "%e = tgk.sub %d, 1 : u32\n%p = tgk.div %e, 16 : u32\n"
                                       "%q = tgk.add %p, 1 : u32\n"),
            "0..1");
  EXPECT_EQ(range("%c, %d, 0", "%c = tgk.ge 40, %l : bool\n%d = tgk.sub 40, %l : u32\n"), "0..40");
  EXPECT_EQ(range("%c, 0, %d", "%c = tgk.ge %l, 16 : bool\n%d = tgk.sub 16, %l : u32\n"), "0..16");
  EXPECT_EQ(range("%c, 0, %d", below), "0..4294967295");  // where it wraps around
  EXPECT_EQ(range("%c, %l, 5", below), "0..15");
  // A condition that never holds, of %l below 64.
  EXPECT_EQ(range("%c, %d, 0", "%c = tgk.lt 70, %l : bool\n%d = tgk.sub %l, 71 : u32\n"), "0..0");
  EXPECT_EQ(range("%c, 0, %d", "%c = tgk.ge 70, %l : bool\n%d = tgk.sub %l, 71 : u32\n"), "0..0");
  auto inRange = [](const std::string& body) { return Analysed(around(body, kOpenGrid)).inRange("y"); };
  const std::string last = "%m = tgk.sub %n, 1 : u32\n%c = tgk.lt %i, %n : bool\n";
  EXPECT_TRUE(inRange(last + "%a = tgk.select %c, %i, %m : u32\ntgk.store 1.0, %y[%a]"));
  EXPECT_FALSE(inRange(last + "%a = tgk.select %c, %m, %i : u32\ntgk.store 1.0, %y[%a]"));
}

TEST(IndexAnalysis, InRange) {
  auto inRange = [](const std::string& body, const std::string& y = "?xf32") {
    return Analysed(around(body, kOpenGrid, y)).inRange("y");
  };
  const std::string guarded = "%in = tgk.lt %i, %n : bool\n tgk.if %in {\n";
  EXPECT_TRUE(inRange(guarded + "tgk.store 1.0, %y[%i]\n }"));
  EXPECT_TRUE(
      inRange(guarded + "%m = tgk.sub %n, 1 : u32\n %r = tgk.sub %m, %i : u32\n tgk.store 1.0, %y[%r]\n }"));
  EXPECT_TRUE(inRange("tgk.store 1.0, %y[0]"));
  EXPECT_TRUE(inRange("tgk.store 1.0, %y[%l]", "64xf32"));
  EXPECT_TRUE(inRange("%m = tgk.sub %n, 1 : u32\n %a = tgk.min %i, %m : u32\n tgk.store 1.0, %y[%a]"));
  EXPECT_TRUE(inRange("%a = tgk.mod %i, %n : u32\n tgk.store 1.0, %y[%a]"));
  EXPECT_TRUE(inRange("tgk.for %k = 0 to(%n) {\n tgk.store 1.0, %y[%k]\n }"));
  EXPECT_TRUE(inRange("tgk.for %k = %l to(%n) step(64) {\n tgk.store 1.0, %y[%k]\n }"));
  EXPECT_TRUE(
      inRange("%q = tgk.div %l, 8 : u32\n %r = tgk.mod %l, 8 : u32\n tgk.store 1.0, %y[%q, %r]", "8x8xf32"));
  // i - 1 wraps to the largest u32 at 0, so that one comparison guards both ends.
  EXPECT_TRUE(inRange("%p = tgk.sub %i, 1 : u32\n %in = tgk.lt %p, %n : bool\n tgk.if %in {\n"
                      " tgk.store 1.0, %y[%p]\n }"));
  EXPECT_TRUE(inRange("%in = tgk.lt %i, 16 : bool\n tgk.if %in {\n %a = tgk.mul %i, 4 : u32\n"
                      " %b = tgk.add %a, 3 : u32\n tgk.store 1.0, %y[%b]\n }",
                      "64xf32"));
  EXPECT_TRUE(inRange("%h = tgk.div %n, 2 : u32\n %in = tgk.lt %i, %h : bool\n tgk.if %in {\n"
                      " %a = tgk.mul %i, 2 : u32\n %b = tgk.add %a, 1 : u32\n tgk.store 1.0, %y[%b]\n }"));

  EXPECT_FALSE(inRange("tgk.store 1.0, %y[%i]"));
  EXPECT_FALSE(inRange("tgk.store 1.0, %y[1]"));
  EXPECT_FALSE(inRange("%in = tgk.le %i, %n : bool\n tgk.if %in {\n tgk.store 1.0, %y[%i]\n }"));
  EXPECT_FALSE(inRange("%in = tgk.lt %i, %xn : bool\n tgk.if %in {\n tgk.store 1.0, %y[%i]\n }"));
  EXPECT_FALSE(inRange(guarded + "%a = tgk.add %i, 1 : u32\n tgk.store 1.0, %y[%a]\n }"));
  EXPECT_FALSE(inRange(guarded + "%a = tgk.sub %i, 1 : u32\n tgk.store 1.0, %y[%a]\n }"));
  EXPECT_FALSE(inRange(guarded + "} else {\n tgk.store 1.0, %y[%i]\n }"));
  EXPECT_FALSE(inRange("%a = tgk.load %idx[%i] : u32\n tgk.store 1.0, %y[%a]"));
  EXPECT_FALSE(
      inRange("%s = tgk.cast %l : i32\n %a = tgk.sub %s, 1 : i32\n tgk.store 1.0, %y[%a]", "64xf32"));
  // 2^31·i is 0 or 2^31.
  EXPECT_FALSE(inRange("%a = tgk.mul %i, 2147483648 : u32\n tgk.store 1.0, %y[%a]"));
}

/// Where an access is moved to, only the guards there count.
TEST(IndexAnalysis, InRangeElsewhere) {
  Analysed k(around(R"(
  %in = tgk.lt %w, %n : bool
  tgk.if %in {
    %c = tgk.gt %xn, 3 : bool
    tgk.if %c {
      %a = tgk.load %y[%w] : f32
      %b = tgk.load %x[0] : f32
    }
  }
)"));
  std::vector<const Op*> ifs;
  walk(k.kernel->body, [&](Op& op) {
    if (op.code == Opcode::k_if) ifs.push_back(&op);
  });
  const Op &guarded = *k.of("y").at(0), &first = *k.of("x").at(0);
  EXPECT_TRUE(k.analysis->inRange(guarded));
  EXPECT_TRUE(k.analysis->inRange(guarded, *ifs[1]));   // still behind %in
  EXPECT_FALSE(k.analysis->inRange(guarded, *ifs[0]));  // before it
  EXPECT_TRUE(k.analysis->inRange(first, *ifs[0]));
}

TEST(IndexAnalysis, SharedAndLocalBuffers) {
  Analysed k(around(R"(
  %s = tgk.shared : buf<256xf32, shared>
  %t = tgk.shared : buf<64xf32, shared>
  %u = tgk.shared : buf<64xf32, shared>
  %v = tgk.local : buf<8xf32, local>
  tgk.store 1.0, %t[%l]
  %again = tgk.load %t[%l] : f32
  tgk.store 1.0, %u[%l]
  %next = tgk.add %l, 1 : u32
  %other = tgk.load %u[%next] : f32
  tgk.for %k = 0 to(4) {
    %a = tgk.mul %k, 64 : u32
    %b = tgk.add %a, %l : u32
    tgk.store 1.0, %s[%b]
    tgk.store 1.0, %v[%k]
  }
)"));
  EXPECT_TRUE(k.lanePrivate("s"));
  EXPECT_TRUE(k.lanePrivate("t"));
  EXPECT_FALSE(k.lanePrivate("u"));
  EXPECT_TRUE(k.lanePrivate("v"));
  EXPECT_FALSE(k.repeats("v"));
}

}  // namespace
}  // namespace tg::test
