// SPDX-License-Identifier: Apache-2.0
// The planner: rooms, homes, groups, in-place results, and random graphs that the verifier judges.
#include <algorithm>
#include <random>

#include "passes/plan/groups.h"
#include "passes/plan/occupied.h"
#include "passes/plan/offsets.h"
#include "test/unit/plan_support.h"

namespace tg::test {
namespace {

std::string place(const Module& module, const std::string& name, const std::string& func = "train") {
  return placeText(valueOf(module, func, name));
}

TEST(PlanRooms, HostReadsInIoRestInArena) {
  auto module =
      planned(fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" + unary("h", "x", kT) +
                          unary("c", "h", kT, "neg") + unary("y", "h", kT, "exp") +
                          "    tg.capture %c {name = \"c\"}\n    return %y : " + kT + "\n  }\n"));
  ASSERT_TRUE(module);
  EXPECT_EQ(place(*module, "x"), "@io[0]");
  EXPECT_EQ(place(*module, "h"), "@arena[0]");
  EXPECT_EQ(place(*module, "c"), "@io[256]");
  EXPECT_EQ(place(*module, "y"), "@io[512]");
  EXPECT_EQ(planSize(*module, "io"), 768);
  EXPECT_EQ(planSize(*module, "arena"), 256);
  EXPECT_EQ(planSize(*module, "lower_bound"), 256);
}

TEST(PlanRooms, IoOfFunctionsIsApartArenaIsShared) {
  auto func = [](const std::string& name) {
    return "  func @" + name + "(%x: " + kT + ") -> (y: " + kT + ") {\n" + unary("h", "x", kT) +
           unary("k", "h", kT, "exp", "row") + unary("y", "k", kT, "neg") + "    return %y : " + kT +
           "\n  }\n";
  };
  auto module = planned(fusedModule(func("train") + func("eval")));
  ASSERT_TRUE(module);
  EXPECT_EQ(planSize(*module, "io"), 4 * 256);
  EXPECT_EQ(planSize(*module, "arena"), 2 * 256);
  EXPECT_EQ(place(*module, "x", "eval"), "@io[512]");
}

TEST(PlanHomes, GroupsAreContiguousOthersInItemOrder) {
  auto module = planned(
      fusedModule("  param @a : tensor<3xf32>\n  param @b : tensor<5xf32>\n  param @c : tensor<2xf32>\n"
                  "  func @train() -> (n: tensor<f32>) {\n    %a = tg.param @a : tensor<3xf32>\n    %c = "
                  "tg.param @c : tensor<2xf32>\n"
                  "    %n = tg.fused (%g = [%c, %a]) {schedule = row} : tensor<f32> {\n"
                  "      %s = tg.sum %g {axes = [0]} : tensor<f32>\n      tg.yield %s : tensor<f32>\n    }\n"
                  "    return %n : tensor<f32>\n  }\n"));
  ASSERT_TRUE(module);
  // @a brings its group with it: @c first, @a on the next 16 bytes, then @b.
  EXPECT_EQ(module->storage("c")->place->offset, 0);
  EXPECT_EQ(module->storage("a")->place->offset, 16);
  EXPECT_EQ(module->storage("b")->place->offset, 32);
  EXPECT_EQ(planSize(*module, "persistent"), 64);
}

/// Adam on two parameters of odd sizes, one dispatch.
std::string groupedUpdate(const std::string& readLater) {
  std::string text;
  for (std::string name : {"p", "m", "v"})
    text += "  param @" + name + "1 : tensor<3xf32>\n  param @" + name + "2 : tensor<5xf32>\n";
  text += "  func @train(%g1: tensor<3xf32>, %x: tensor<5xf32>, %lr: tensor<f32>) -> (y: tensor<3xf32>) {\n";
  for (std::string name : {"p", "m", "v"})
    text += fmt::format(
        "    %{0}1 = tg.param @{0}1 : tensor<3xf32>\n    %{0}2 = tg.param @{0}2 : tensor<5xf32>\n", name);
  text += unary("g2", "x", "tensor<5xf32>") + unary("d1", "g1", "tensor<3xf32>");
  text +=
      "    [%q1, %q2], [%n1, %n2], [%w1, %w2] = tg.fused (%p = [%p1, %p2], %g = [%d1, %g2], %m = [%m1, %m2], "
      "%v = [%v1, %v2], %l = %lr) {schedule = map{vec = 4}} : [tensor<3xf32>, tensor<5xf32>], "
      "[tensor<3xf32>, "
      "tensor<5xf32>], [tensor<3xf32>, tensor<5xf32>] {\n"
      "      %a, %b, %c = tg.adam_update %p, %g, %m, %v, %l : tensor<12xf32>, tensor<12xf32>, "
      "tensor<12xf32>\n"
      "      tg.yield %a, %b, %c : tensor<12xf32>, tensor<12xf32>, tensor<12xf32>\n    }\n";
  text += unary("y", readLater, "tensor<3xf32>");
  for (auto [symbol, value] : {std::pair{"p", "q"}, std::pair{"m", "n"}, std::pair{"v", "w"}})
    text += fmt::format("    tg.update @{0}1, %{1}1\n    tg.update @{0}2, %{1}2\n", symbol, value);
  return fusedModule(text + "    return %y : tensor<3xf32>\n  }\n");
}

TEST(PlanHomes, GroupedOptimizerWritesHomes) {
  auto module = planned(groupedUpdate("q1"));
  ASSERT_TRUE(module);
  EXPECT_EQ(place(*module, "q1"),
            fmt::format("@persistent[{}] inplace(%p1)", module->storage("p1")->place->offset));
  EXPECT_EQ(place(*module, "w2"),
            fmt::format("@persistent[{}] inplace(%v1)", module->storage("v2")->place->offset));
  // The gradients are written one by one, so the padding of each (4 bytes, then 12) is zeroed before.
  std::vector<const Op*> fills;
  for (Op* op : module->func("train")->body.ops)
    if (op->code == Opcode::fill) fills.push_back(op);
  ASSERT_EQ(fills.size(), 2u);
  int64_t start = valueOf(*module, "train", "d1")->place->offset;
  EXPECT_EQ(print(*fills[0]), fmt::format("tg.fill args(out(@arena[{}:4]))\n", start + 12));
  EXPECT_EQ(print(*fills[1]), fmt::format("tg.fill args(out(@arena[{}:12]))\n", start + 36));
}

TEST(PlanHomes, ALaterReadOfTheOldValueForbidsTheHome) {
  auto module = planned(groupedUpdate("p1"));
  ASSERT_TRUE(module);
  EXPECT_EQ(valueOf(*module, "train", "q1")->place->buffer, "arena");
  EXPECT_EQ(valueOf(*module, "train", "n1")->place->buffer, "persistent");
}

TEST(PlanHomes, ANonElementwiseReadOfTheOldValueForbidsTheHome) {
  auto text = [](const std::string& schedule) {
    return fusedModule("  param @w : " + kT + "\n  func @train() -> (y: " + kT +
                       ") {\n    %w = tg.param @w : " + kT + "\n" + unary("n", "w", kT, "exp", schedule) +
                       unary("y", "n", kT) + "    tg.update @w, %n\n    return %y : " + kT + "\n  }\n");
  };
  auto map = planned(text("map{vec = 1}"));
  auto row = planned(text("row"));
  ASSERT_TRUE(map && row);
  EXPECT_EQ(place(*map, "n"), "@persistent[0] inplace(%w)");
  EXPECT_EQ(place(*row, "n"), "@arena[0]");
}

TEST(PlanHomes, ExchangingTwoParametersCopiesTheirEntryValues) {
  auto module =
      planned(fusedModule("  param @a : " + kT + "\n  param @b : " + kT + "\n  func @train() -> (y: " + kT +
                          ") {\n    %a = tg.param @a : " + kT + "\n    %b = tg.param @b : " + kT +
                          "\n    tg.update @a, %b\n    tg.update @b, %a\n    return %a : " + kT + "\n  }\n"));
  ASSERT_TRUE(module);
  // %a is returned as well, so its copy is in @io; %b's cannot be written to @a's home before %a is read.
  const Op& last = *module->func("train")->body.terminator();
  EXPECT_EQ(last.in(0)->place->buffer, "io");
  for (Op* op : module->func("train")->body.ops)
    EXPECT_TRUE(op->code != Opcode::update || op->in(1)->def->code == Opcode::fused);
}

TEST(PlanInPlace, ElementwiseOnDyingOperandOnly) {
  auto chain = [](const std::string& schedule, const std::string& extra) {
    return fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" + unary("h", "x", kT) +
                       unary("k", "h", kT, "exp", schedule) + extra + "    return %y : " + kT + "\n  }\n");
  };
  auto dying = planned(chain("map{vec = 1}", unary("y", "k", kT)));
  auto row = planned(chain("row", unary("y", "k", kT)));
  auto again = planned(chain("map{vec = 1}", added("y", "k", "h", kT)));
  ASSERT_TRUE(dying && row && again);
  EXPECT_EQ(place(*dying, "k"), "@arena[0] inplace(%h)");
  EXPECT_EQ(valueOf(*row, "train", "k")->place->inplace, nullptr);
  EXPECT_EQ(valueOf(*again, "train", "k")->place->inplace, nullptr);
  EXPECT_EQ(planSize(*dying, "arena"), 256);
  EXPECT_EQ(planSize(*row, "arena"), 512);
}

TEST(PlanInPlace, TexelTargetsKeepOnlyWhatHoldsTheArenaDown) {
  // %k could take %h's bytes, but the peak is elsewhere, so %h stays readable through a view.
  std::string big = "tensor<256xf32>";
  std::string text = "  func @train(%x: " + kT + ", %z: " + big + ") -> (y: " + kT + ", u: " + big + ") {\n" +
                     unary("h", "x", kT) + unary("k", "h", kT, "exp") + unary("y", "k", kT) +
                     unary("r", "z", big, "relu", "row") + unary("s", "r", big, "exp", "row") +
                     unary("u", "s", big) + "    return %y, %u : " + kT + ", " + big + "\n  }\n";
  auto storage = planned(fusedModule(text), {.slack = 0});
  auto texel = planned(fusedModule(text, "alignment = 16, reads = \"texel\""), {.slack = 0});
  ASSERT_TRUE(storage && texel);
  EXPECT_EQ(place(*storage, "k"), "@arena[1024] inplace(%h)");
  EXPECT_EQ(valueOf(*texel, "train", "k")->place->inplace, nullptr);
  EXPECT_EQ(planSize(*texel, "arena"), planSize(*storage, "arena"));
}

TEST(PlanErrors, AValueOverTheStorageRangeIsNamed) {
  auto module = parsed(fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" +
                                       unary("y", "x", kT) + "    return %y : " + kT + "\n  }\n",
                                   "alignment = 16, storage_range = 128"));
  auto ran = run_plan(*module, {}, {});
  ASSERT_FALSE(ran);
  EXPECT_EQ(
      ran.error().message(),
      "%x : tensor<64xf32> takes 256 bytes, more than the 128 one binding may span on target 'unnamed'");
  EXPECT_EQ(locString(ran.error().diagnostics()[0].loc), "test.tgir:2:15");
}

TEST(PlanAllocation, EveryBufferLeavesRoomAtTheEnds) {
  // Homes, arguments and transient values of 160 bytes: one in each allocation of 256.
  std::string row = "tensor<40xf32>";
  std::string items = fmt::format("  param @a : {0}\n  param @b : {0}\n"
                                  "  func @train(%x: {0}, %z: {0}) -> (y: {0}) {{\n    %a = tg.param @a : "
                                  "{0}\n    %b = tg.param @b : {0}\n",
                                  row);
  items += unary("h", "x", row, "exp", "row") + unary("k", "z", row, "exp", "row") +
           added("m", "h", "k", row, "row") + added("n", "a", "b", row, "row") + added("y", "m", "n", row) +
           "    return %y : " + row + "\n  }\n";
  auto module =
      planned(fusedModule(items, "alignment = 16, storage_range = 256, allocation = 256"), {.slack = 0});
  auto whole = planned(fusedModule(items), {.slack = 0});
  ASSERT_TRUE(module && whole);
  EXPECT_EQ(module->storage("b")->place->offset, 256);
  EXPECT_EQ(whole->storage("b")->place->offset, 160);
  EXPECT_EQ(place(*module, "z"), "@io[256]");
  EXPECT_EQ(place(*module, "y"), "@io[512]");
  EXPECT_EQ(planSize(*module, "persistent"), 416);
  EXPECT_EQ(planSize(*module, "arena"), 2 * 256 + 160);
  EXPECT_EQ(planSize(*module, "lower_bound"), 480);
  EXPECT_EQ(planSize(*whole, "arena"), 480);
}

TEST(PlanAllocation, OffsetsGoBeyond32Bits) {
  // 3 GiB each: three homes, two values of the step, and what the second function reads of 6 GiB by rows.
  const std::string large = "tensor<805306368xf32>", rows = "tensor<2x805306368xf32>";
  std::string items = fmt::format("  param @a : {0}\n  param @b : {0}\n  state @c : {1}\n"
                                  "  func @train(%x: {0}) -> (y: {0}) {{\n    %a = tg.param @a : {0}\n"
                                  "    %b = tg.param @b : {0}\n    %c = tg.state @c {{rows = [1, 2]}} : "
                                  "tensor<1x805306368xf32>\n",
                                  large, rows);
  items += unary("h", "x", large, "exp", "row") + unary("k", "b", large, "exp", "row") +
           added("m", "h", "k", large, "row") + unary("n", "c", "tensor<1x805306368xf32>", "neg") +
           added("y", "m", "a", large, "row") +
           "    tg.update @c, %n {rows = [1, 2]}\n    return %y : " + large + "\n  }\n";
  auto module =
      planned(fusedModule(items, "alignment = 256, storage_range = 4292870144, allocation = 1099511627776"));
  ASSERT_TRUE(module);
  const int64_t gib3 = int64_t{3} << 30;
  EXPECT_EQ(module->storage("b")->place->offset, gib3);
  EXPECT_EQ(module->storage("c")->place->offset, 2 * gib3);
  EXPECT_EQ(place(*module, "c"), fmt::format("@persistent[{}]", 3 * gib3));
  EXPECT_EQ(place(*module, "n"), fmt::format("@persistent[{}] inplace(%c)", 3 * gib3));
  EXPECT_EQ(planSize(*module, "persistent"), 4 * gib3);
  EXPECT_EQ(planSize(*module, "arena"), 3 * gib3);
  EXPECT_EQ(planSize(*module, "io"), 2 * gib3);
}

TEST(PlanReport, NamesWhatIsLiveAtThePeakWithItsPlace) {
  auto module = parsed(fusedModule("  func @train(%x: " + kT + ") -> (y: " + kT + ") {\n" +
                                   unary("h", "x", kT) + unary("k", "h", kT, "exp", "row") +
                                   unary("y", "k", kT) + "    return %y : " + kT + "\n  }\n"));
  std::vector<std::string> remarks;
  PassContext context;
  context.onDiagnostic = [&](const Diagnostic& diagnostic) {
    remarks.push_back(locString(diagnostic.loc) + " " + diagnostic.message);
  };
  ASSERT_TRUE(run_plan(*module, {.report = true}, context));
  ASSERT_EQ(remarks.size(), 4u);
  EXPECT_EQ(remarks[0],
            "test.tgir:2:3 @train: 3 kernels, 2 barriers between them (2 in the order of the text)");
  EXPECT_EQ(remarks[1],
            "test.tgir:2:3 @train: 512 bytes of arena for 512 live at the peak, at %k; values live there: 2");
  EXPECT_EQ(remarks[2], "test.tgir:3:5 live at the peak of @train: %h : tensor<64xf32>, 256 bytes");
}

TEST(PlanGroups, RunsHoldPartsAndRefuseConflicts) {
  Op op(Opcode::fused);
  auto nameOf = [](int key) { return fmt::format("@{}", key); };
  auto runs =
      plan::mergeRuns({{{1, 2}, &op, true}, {{0, 1, 2, 3}, &op, true}, {{3, 0}, &op, false}}, 5, nameOf);
  ASSERT_TRUE(runs);
  EXPECT_EQ(*runs, (std::vector<std::vector<int>>{{0, 1, 2, 3}}));
  auto conflict = plan::mergeRuns({{{0, 1}, &op, true}, {{1, 0}, &op, true}}, 2, nameOf);
  ASSERT_FALSE(conflict);
  EXPECT_EQ(
      conflict.error().message(),
      "tg.fused [plan.group]: no layout holds the group [@1, @0]: @1 already has its place in [@0, @1]");
  EXPECT_FALSE(plan::mergeRuns({{{0, 0}, &op, true}}, 1, nameOf));
}

TEST(PlanOffsets, NothingCrossesTheEndOfAnAllocation) {
  Target target;
  target.allocation = 1024;
  std::mt19937 random(7);
  int segmented = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<plan::Alloc> allocs;
    for (int i = 0; i < 40; ++i) {
      plan::Alloc& alloc = allocs.emplace_back();
      for (size_t pieces = 1 + random() % 3; alloc.pieces.size() < pieces;) {
        const int first = static_cast<int>(random() % 60);
        alloc.pieces.push_back({alloc.bytes, 16 * (1 + static_cast<int64_t>(random() % 20)), first,
                                first + static_cast<int>(random() % 12)});
        alloc.bytes += alloc.pieces.back().bytes;
      }
    }
    const int64_t bytes = plan::assignOffsets(allocs, target);
    segmented += bytes > target.allocation;
    EXPECT_GE(bytes, plan::lowerBound(allocs));
    for (const plan::Alloc& a : allocs) {
      EXPECT_EQ(a.offset / 1024, (a.offset + a.bytes - 1) / 1024);
      EXPECT_LE(a.offset + a.bytes, bytes);
      for (const plan::Alloc& b : allocs)
        for (const plan::Piece& p : a.pieces)
          for (const plan::Piece& q : b.pieces) {
            const int64_t from = a.offset + p.from, other = b.offset + q.from;
            EXPECT_TRUE(&a == &b || p.last < q.first || q.last < p.first || from + p.bytes <= other ||
                        other + q.bytes <= from);
          }
    }
  }
  EXPECT_EQ(segmented, 20);
}

TEST(PlanOffsets, BytesInUseAreThoseOfAllPiecesThatAreAlive) {
  constexpr int kOps = 40, kBytes = 3000;
  std::mt19937 random(7);
  plan::Occupied occupied(kOps - 1);
  std::vector<std::vector<bool>> inUse(kOps, std::vector<bool>(kBytes, false));  // [op][byte]
  for (int round = 0; round < 3000; ++round) {
    const auto first = static_cast<int>(random() % kOps);
    const int last = std::min(kOps - 1, first + static_cast<int>(random() % (round % 9 ? 4 : kOps)));
    const auto from = static_cast<int64_t>(random() % kBytes);
    const plan::Piece piece{from, std::min<int64_t>(kBytes - from, 1 + round / 1000), first, last};
    std::vector<plan::Span> found;
    occupied.find(piece, found);
    std::vector<bool> bytes(kBytes, false), expected(kBytes, false);
    for (const plan::Span& span : found) std::fill(bytes.begin() + span.from, bytes.begin() + span.to, true);
    for (int op = first; op <= last; ++op)
      for (int byte = 0; byte < kBytes; ++byte) expected[byte] = expected[byte] || inUse[op][byte];
    ASSERT_EQ(bytes, expected) << round;
    occupied.add(piece);
    for (int op = first; op <= last; ++op) std::fill_n(inUse[op].begin() + piece.from, piece.bytes, true);
  }
}

TEST(PlanOffsets, NestedLifetimesReachTheBound) {
  // Forward values die in reverse, as activations do: always packable without loss.
  std::vector<plan::Alloc> allocs;
  for (int layer = 0; layer < 20; ++layer) {
    const int64_t bytes = 16 * (1 + layer * 7 % 5);
    allocs.push_back({bytes, {{0, bytes, layer, 40 - layer}}, 0});
  }
  int64_t bound = plan::lowerBound(allocs);
  EXPECT_EQ(plan::assignOffsets(allocs, Target{}), bound);
}

TEST(PlanOffsets, PiecesAreBornIntoWhatHasDied) {
  // Activations die in reverse while gradients of one group come to be, as many bytes for as many.
  constexpr int kLayers = 20;
  std::vector<plan::Alloc> allocs;
  plan::Alloc gradients;
  for (int layer = 0; layer < kLayers; ++layer) {
    allocs.push_back({64, {{0, 64, layer, 2 * kLayers - layer}}, 0});
    gradients.pieces.push_back({64 * layer, 64, 2 * kLayers - layer + 1, 3 * kLayers});
  }
  gradients.bytes = static_cast<int64_t>(64 * kLayers);
  allocs.push_back(gradients);
  EXPECT_EQ(plan::lowerBound(allocs), 64 * kLayers);
  EXPECT_EQ(plan::assignOffsets(allocs, Target{}), 64 * kLayers);
}

/// A random graph: every op reads one to three earlier values, some outlive the step.
std::string randomModule(std::mt19937& random, int ops) {
  auto draw = [&](int below) { return static_cast<int>(random() % below); };
  std::vector<int> sizes{64, 64, 64, 256, 17, 1024};
  std::vector<std::pair<std::string, int>> values{{"x", 64}};
  std::string body, results, names, types;
  for (int index = 0; index < ops; ++index) {
    std::string name = fmt::format("v{}", index);
    auto [from, size] = values[draw(2) ? values.size() - 1 : draw(static_cast<int>(values.size()))];
    std::string type = fmt::format("tensor<{}xf32>", size);
    int kind = draw(4);
    if (kind == 0) {
      int to = sizes[draw(static_cast<int>(sizes.size()))];
      std::string out = fmt::format("tensor<{}xf32>", to);
      body += fmt::format("    %{0} = tg.fused (%{0}_a = %{1}) {{schedule = row}} : {2} {{\n"
                          "      %{0}_s = tg.sum %{0}_a {{axes = [0]}} : tensor<f32>\n"
                          "      %{0}_b = tg.broadcast_to %{0}_s {{shape = [{3}]}} : {2}\n      tg.yield "
                          "%{0}_b : {2}\n    }}\n",
                          name, from, out, to);
      size = to;
    } else {
      std::vector<std::string> same;
      for (auto& [other, extent] : values)
        if (extent == size) same.push_back(other);
      body += kind == 1 ? unary(name, from, type, "exp")
                        : added(name, from, same[draw(static_cast<int>(same.size()))], type);
    }
    values.push_back({name, size});
  }
  for (size_t index = 1; index < values.size(); index += 9) {
    std::string type = fmt::format("tensor<{}xf32>", values[index].second);
    results += fmt::format("{}r{}: {}", results.empty() ? "" : ", ", index, type);
    names += fmt::format("{}%{}", names.empty() ? "" : ", ", values[index].first);
    types += fmt::format("{}{}", types.empty() ? "" : ", ", type);
  }
  return fusedModule("  func @train(%x: tensor<64xf32>) -> (" + results + ") {\n" + body + "    return " +
                     names + " : " + types + "\n  }\n");
}

struct Life {
  Value* value;
  int first, last;
};

/// Arena values with their lifetimes, counted here from the text's uses.
std::vector<Life> arenaLives(Module& module) {
  std::unordered_map<const Value*, Life> lives;
  std::vector<Life> out;
  const OpList& ops = module.func("train")->body.ops;
  int index = 0;
  for (const Op* op : ops) {
    forEachUse(*op, [&](Value* value) { lives[value].last = index; });
    for (auto& result : op->results) lives[result.get()] = {result.get(), index, index};
    ++index;
  }
  for (Op* op : ops)
    for (auto& result : op->results)
      if (result->place->buffer == "arena") out.push_back(lives[result.get()]);
  return out;
}

TEST(PlanRandom, GraphsVerifyAndStayNearTheBound) {
  std::mt19937 random(7);
  double worst = 1;
  for (int round = 0; round < 60; ++round) {
    // What fewer barriers cost is in plan_order_test.cpp.
    auto module = planned(randomModule(random, 10 + round * 2), {.order = "text"});
    ASSERT_TRUE(module);
    double ratio = static_cast<double>(planSize(*module, "arena")) /
                   static_cast<double>(std::max<int64_t>(1, planSize(*module, "lower_bound")));
    worst = std::max(worst, ratio);
    // The bound is at least what is live at any op by the test's own count, less what is in place.
    std::vector<Life> lives = arenaLives(*module);
    for (const Life& at : lives) {
      int64_t live = 0;
      for (const Life& other : lives)
        if (other.first < at.first && other.last > at.first)
          live += (other.value->type.bytes() + 15) / 16 * 16;
      EXPECT_GE(planSize(*module, "arena"), live);
    }
  }
  EXPECT_LE(worst, 1.03);
}

/// A chain in which every third value is read again at the end of its half, all of those as one group, by what the
/// chain goes on with.
std::string chainIntoGroup(std::mt19937& random, int ops, const std::vector<int>& sizes,
                           const std::string& target = "alignment = 16") {
  std::string body, members, last = "x";
  // The sum of an operand in each of some elements.
  auto sum = [&](const std::string& name, const std::string& operand, int to) {
    body += fmt::format("    %{0} = tg.fused (%a = {1}) {{schedule = row}} : tensor<{2}xf32> {{\n"
                        "      %s = tg.sum %a {{axes = [0]}} : tensor<f32>\n"
                        "      %b = tg.broadcast_to %s {{shape = [{2}]}} : tensor<{2}xf32>\n"
                        "      tg.yield %b : tensor<{2}xf32>\n    }}\n",
                        name, operand, to);
    last = name;
  };
  auto size = [&] { return sizes[random() % sizes.size()]; };
  for (int index = 0; index < ops; ++index) {
    sum(fmt::format("v{}", index), "%" + last, size());
    if (index % 3 == 0) members += fmt::format("{}%v{}", members.empty() ? "" : ", ", index);
    if (index + 1 != ops / 2 && index + 1 != ops) continue;
    sum(fmt::format("n{}", index), "[" + members + "]", size());
    members.clear();
  }
  sum("n", "%" + last, 1);
  return fusedModule("  func @train(%x: tensor<64xf32>) -> (n: tensor<1xf32>) {\n" + body +
                         "    return %n : tensor<1xf32>\n  }\n",
                     target);
}

/// Whether a plan in the order of the text keeps bytes for each member's life, with its padding, and for no longer.
void checkMembers(const std::string& text, int64_t alignment) {
  auto module = planned(text, {.order = "text"});
  ASSERT_TRUE(module);
  const std::vector<Life> lives = arenaLives(*module);
  int64_t most = 0;
  for (const Life& at : lives) {
    int64_t live = 0;
    for (const Life& other : lives)
      if (other.first <= at.first && at.first <= other.last)
        live += (other.value->type.bytes() + 15) / 16 * 16;
    most = std::max(most, live);
  }
  // By the alignment, at most two blocks a value more.
  EXPECT_LE(planSize(*module, "lower_bound"), most + 2 * alignment * static_cast<int64_t>(lives.size()));
  if (alignment == 16) {
    EXPECT_EQ(planSize(*module, "lower_bound"), most);
  }
  EXPECT_LE(planSize(*module, "arena"), planSize(*module, "lower_bound") * 5 / 4);
  // Padding is zeroed right in front of what writes the member before it.
  for (const Op* op : module->func("train")->body.ops) {
    if (op->code != Opcode::fill) continue;
    ASSERT_EQ(op->next()->code, Opcode::fused);
    const Value& member = *op->next()->result(0);
    EXPECT_EQ(op->keyword("args")->items[0].items[0].items[0].integer,
              member.place->offset + member.type.bytes());
  }
}

// Any alignment: members then share blocks of it with their neighbours. With padding behind members and without.
TEST(PlanRandom, MembersOfAGroupLeaveRoomUntilTheyAreWritten) {
  const std::vector<int> whole{4, 8, 64, 128, 500, 1024}, padded{3, 4, 17, 64, 129, 500, 1001};
  for (int round = 0; round < 30; ++round)
    for (const int alignment : {16, 256})
      for (const std::vector<int>& sizes : {whole, padded}) {
        std::mt19937 random(static_cast<unsigned>(round));
        const std::string text = chainIntoGroup(random, 30, sizes, fmt::format("alignment = {}", alignment));
        checkMembers(text, alignment);
        ASSERT_TRUE(planned(text));  // in intervals between barriers
      }
}

TEST(PlanRandom, AnyPlaceMovedOntoALiveValueIsFound) {
  std::mt19937 random(11);
  int broken = 0;
  for (int round = 0; round < 40; ++round) {
    auto module = planned(randomModule(random, 40));
    ASSERT_TRUE(module);
    std::vector<Life> lives = arenaLives(*module);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const Life& held = lives[random() % lives.size()];
      const Life& moved = lives[random() % lives.size()];
      if (held.first >= moved.first || held.last <= moved.first) continue;
      std::optional<Place> before = moved.value->place;
      moved.value->place = Place{"arena", held.value->place->offset, nullptr};
      EXPECT_FALSE(verifyPlan(*module)) << "%" << moved.value->name << " onto %" << held.value->name << "\n"
                                        << print(*module);
      moved.value->place = before;
      ++broken;
    }
    EXPECT_TRUE(verifyPlan(*module));
  }
  EXPECT_GT(broken, 20);
}

}  // namespace
}  // namespace tg::test
