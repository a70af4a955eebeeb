// SPDX-License-Identifier: Apache-2.0
// Schedules as text: every row of ir/schedules.def reads, prints and refuses by its fields.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/parser.h"
#include "ir/schedule.h"

namespace tg {
namespace {

Schedule read(const std::string& text) {
  auto attr = parseAttr(text);
  EXPECT_TRUE(attr) << text;
  auto schedule = parseSchedule(*attr);
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().str());
  return schedule ? *schedule : Schedule{};
}
std::string refusal(const std::string& text) {
  auto schedule = parseSchedule(*parseAttr(text));
  EXPECT_FALSE(schedule) << text;
  return schedule ? "" : schedule.error().message();
}
std::string printed(const std::string& text) { return scheduleAttr(read(text)).str(); }

// Of each row the fields that have to be given, and any others that are no default.
const char* const kTexts[] = {
    "map{vec = 4, workgroup = 128}",
    "row{lanes = 32, vec = 4, workgroup = 64}",
    "column{lanes = 128, side = 2, vec = 4}",
    "turn{block = [32, 64], workgroup = 256}",
    "matmul{tile = [8, 4], depth = 2, workgroup = 16}",
    "matmul{tile = [4, 4], shared = [32, 32, 16], slices = 2}",
    "coopmat{tile = [128, 128, 32], warp = [64, 32]}",
    "attention{tile = 4, block = 2, workgroup = 16}",
    "attention{tile = 8, block = 4, shared = [64, 32]}",
    "coopmat_attention{tile = [128, 64], warp = 16}",
    "coopmat_attention{tile = [64, 32], warp = 16, share = 2}",
    "custom",
    "matmul{tile = [8, 4], depth = 4, workgroup = 16, turned = [false, true]}",
    "matmul{tile = [8, 4], depth = 4, workgroup = 16, stepwise = true}",
    "matmul{tile = [8, 4], depth = 4, workgroup = 16, storage = [1], scalars = true}",
    ("matmul{tile = [4, 4], shared = [32, 32, 16], band = 4, lower = true, hidden = true, zeros = true, "
     "unread = 64}"),
    "matmul{tile = [8, 4], shared = [64, 64, 24], run = 3}",
    "matmul{tile = [4, 4], shared = [32, 32, 16], turned = [true, true], storage = [0, 1], scalars = true}",
    "coopmat{tile = [64, 64, 32], warp = [32, 32], patch = 16, turned = [true, false]}",
    "coopmat{tile = [64, 64, 32], warp = [32, 32], storage = [1], scalars = true}",
    "map{vec = 4, workgroup = 64, storage = [0, 2], scalars = true}",
    "row{lanes = 32, vec = 4, workgroup = 64, storage = [0], scalars = true}",
    "column{lanes = 128, side = 2, vec = 4, storage = [3], scalars = true}",
    "turn{block = [32, 64], workgroup = 256, storage = [0], scalars = true}",
    "attention{tile = 4, block = 2, workgroup = 16, storage = [1], scalars = true}",
    "attention{tile = 8, block = 4, shared = [64, 32], storage = [1], scalars = true}",
    "coopmat_attention{tile = [128, 64], warp = 16, storage = [1], scalars = true}",
    "parts{of = [map{vec = 1, workgroup = 64}], results = [2], storage = [1], scalars = true}",
    "parts{of = [map{vec = 1, workgroup = 64}, column{lanes = 8, side = 8, vec = 1}], results = [1, 2]}",
};

TEST(ScheduleText, PrintsWhatItRead) {
  std::set<size_t> kinds;
  for (const char* text : kTexts) {
    EXPECT_EQ(printed(text), text);
    EXPECT_EQ(read(printed(text)), read(text));
    kinds.insert(read(text).index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Schedule>) << "a kind has no text here";
  EXPECT_EQ(scheduleRows().size(), std::variant_size_v<Schedule>);
}

TEST(ScheduleText, EveryFieldIsWrittenSomewhere) {
  const std::vector<ScheduleRow>& rows = scheduleRows();
  for (size_t kind = 0; kind < rows.size(); ++kind)
    for (const ScheduleField& field : rows[kind].fields) {
      auto has = [&](const char* text) {
        return read(text).index() == kind && parseAttr(text)->find(field.name);
      };
      EXPECT_TRUE(std::any_of(std::begin(kTexts), std::end(kTexts), has))
          << "no text here has '" << field.name << "' of: " << rows[kind].meaning;
    }
}

TEST(ScheduleText, FieldsLeftOutHaveTheirDefaults) {
  EXPECT_EQ(printed("map"), "map{vec = 1, workgroup = 64}");
  EXPECT_EQ(printed("map{}"), "map{vec = 1, workgroup = 64}");
  EXPECT_EQ(printed("row"), "row{lanes = 1, vec = 1, workgroup = 64}");
  EXPECT_EQ(printed("row{lanes = 128}"), "row{lanes = 128, vec = 1, workgroup = 128}");
  EXPECT_EQ(printed("matmul{tile = [2, 2]}"), "matmul{tile = [2, 2], depth = 1, workgroup = 8}");
  EXPECT_EQ(printed("matmul{tile = [4, 4], shared = [32, 32, 16], slices = 1}"),
            "matmul{tile = [4, 4], shared = [32, 32, 16]}");
  EXPECT_EQ(printed("coopmat{tile = [64, 64, 32], warp = [32, 32], patch = 32, turned = [false, false]}"),
            "coopmat{tile = [64, 64, 32], warp = [32, 32]}");
  EXPECT_EQ(printed("attention{}"), "attention{tile = 1, block = 1, workgroup = 8}");
}

TEST(ScheduleText, TheKindIsAType) {
  const Schedule shared = read("matmul{tile = [4, 4], shared = [32, 32, 16]}");
  EXPECT_EQ(std::get<MatmulSchedule>(read("matmul{tile = [8, 4], depth = 2, workgroup = 16}")),
            (MatmulSchedule{.tile = {8, 4}, .depth = 2, .workgroup = 16}));
  EXPECT_EQ(std::get<SharedMatmulSchedule>(shared).shared, (std::array<int64_t, 3>{32, 32, 16}));
  const auto parts =
      std::get<PartsSchedule>(read("parts{of = [map, column{lanes = 8, side = 8}], results = [1, 2]}"));
  EXPECT_EQ(std::get<ColumnSchedule>(parts.of[1]).side, 8);
  EXPECT_EQ(parts.results, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(scheduleKind(shared), "matmul");
  EXPECT_EQ(takesOver(read("row")), TakesOver::rows);
}

TEST(ScheduleText, RefusesEveryField) {
  // A value that no field takes, in the place of each.
  for (const ScheduleRow& row : scheduleRows())
    for (const ScheduleField& field : row.fields) {
      const std::string text = std::string(row.kind) + "{" + std::string(field.name) + " = \"x\"}";
      EXPECT_NE(refusal(text), "") << text;
    }
  EXPECT_EQ(refusal("map{vec = 3}"), "schedule map{vec = 3} has 3 in 'vec', which takes 1 or 4");
  EXPECT_EQ(refusal("map{workgroup = 100000}"),
            "schedule map{workgroup = 100000} has 100000 in 'workgroup', which takes 1 to 1024");
  EXPECT_EQ(refusal("column{side = 2}"), "schedule column{side = 2} lacks 'lanes'");
  EXPECT_EQ(refusal("column{lanes = 12}"),
            "schedule column{lanes = 12} has 12 in 'lanes', which takes a power of two, 2 to 1024");
  EXPECT_EQ(refusal("matmul{shared = [4, 4, 4]}"), "schedule matmul{shared = [4, 4, 4]} lacks 'tile'");
  EXPECT_EQ(refusal("matmul{tile = [4, 4], shared = [4, 4, 4], depth = 4}"),
            "schedule matmul{tile = [4, 4], shared = [4, 4, 4], depth = 4} has no field 'depth'; matmul has: "
            "tile, shared, slices, band, run, turned, lower, hidden, zeros, unread, storage, scalars");
  EXPECT_EQ(refusal("matmul{tile = [4, 4], turned = [true]}"),
            "schedule matmul{tile = [4, 4], turned = [true]} needs 2 of true and false in 'turned'");
  EXPECT_EQ(refusal("map{scalars = 1}"), "schedule map{scalars = 1} needs true or false in 'scalars'");
  EXPECT_EQ(
      refusal("parts{of = [map{scalars = true}], results = [1]}"),
      "schedule parts{of = [map{scalars = true}], results = [1]} has the part map{scalars = true}, but how "
      "operands are read is said of the whole");
  EXPECT_EQ(
      refusal("parts{of = [map], results = [1, 2]}"),
      "schedule parts{of = [map], results = [1, 2]} needs as many numbers in 'results' as parts in 'of'");
  EXPECT_EQ(refusal("custom{vec = 1}"), "schedule custom{vec = 1} has no field 'vec'; custom has: none");
}

}  // namespace
}  // namespace tg
