// SPDX-License-Identifier: Apache-2.0
#include "ir/verify_schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace tg {
namespace {

/// A number of a schedule, or a list of `count`, each in least … most.
struct Field {
  std::string_view kind, name;
  size_t count;
  int64_t least, most;
  bool required = false;
};

constexpr int64_t kMostLanes = 1024;  ///< invocations of a workgroup on any device
constexpr int64_t kMostTile = 256;    ///< of what one invocation holds in registers, along an axis
constexpr int64_t kMostBlock = 4096;  ///< of what a workgroup computes, along an axis

constexpr Field kFields[] = {
    {"map", "vec", 1, 1, 4},
    {"map", "workgroup", 1, 1, kMostLanes},
    {"row", "lanes", 1, 1, kMostLanes},
    {"row", "vec", 1, 1, 4},
    {"row", "workgroup", 1, 1, kMostLanes},
    {"column", "lanes", 1, 1, kMostLanes},
    {"column", "side", 1, 1, kMostLanes},
    {"column", "vec", 1, 1, 4},
    {"matmul", "tile", 2, 1, kMostTile, true},
    {"matmul", "depth", 1, 1, kMostTile},
    {"matmul", "workgroup", 1, 1, kMostLanes},
    {"matmul", "shared", 3, 1, kMostBlock},
    {"matmul", "slices", 1, 1, kMostLanes},
    {"coopmat", "tile", 3, 1, kMostBlock, true},
    {"coopmat", "warp", 2, 1, kMostBlock, true},
    {"attention", "tile", 1, 1, kMostTile},
    {"attention", "block", 1, 1, kMostTile},
    {"attention", "workgroup", 1, 1, kMostLanes},
};

/// Kinds that a part of `parts` may be of, then those that stand alone.
constexpr std::string_view kKinds[] = {"map",     "row",       "column", "matmul",
                                       "coopmat", "attention", "custom", "parts"};
constexpr size_t kPartKinds = 3;

class ScheduleVerifier {
 public:
  explicit ScheduleVerifier(const Attr& whole) : whole_(whole) {}
  Result<void> run() { return whole_.text == "parts" ? parts() : one(whole_); }

 private:
  Result<void> one(const Attr& schedule);
  Result<void> parts();
  Error bad(std::string_view why) const { return fail(fmt::format("schedule {} {}", whole_.str(), why)); }

  const Attr& whole_;
};

bool isSchedule(const Attr& attr) {
  return attr.kind == Attr::Kind::word || (attr.kind == Attr::Kind::call && !attr.angle && attr.list.empty());
}

std::string fieldsOf(std::string_view kind) {
  std::string text;
  for (const Field& field : kFields)
    if (field.kind == kind) text += fmt::format("{}{}", text.empty() ? "" : ", ", field.name);
  return text.empty() ? "none" : text;
}

/// The number, or the numbers; nothing where they are not as many as the field wants.
std::vector<int64_t> numbersOf(const Field& field, const Attr& value) {
  if (field.count == 1 && value.kind == Attr::Kind::integer) return {value.integer};
  const std::vector<int64_t> list = value.asInts();
  return field.count > 1 && list.size() == field.count && value.list.size() == field.count
             ? list
             : std::vector<int64_t>{};
}

Result<void> ScheduleVerifier::one(const Attr& schedule) {
  for (const NamedAttr& given : schedule.dict) {
    const Field* field = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& each) {
      return each.kind == schedule.text && each.name == given.name;
    });
    if (field == std::end(kFields))
      return bad(
          fmt::format("has no field '{}'; {} has: {}", given.name, schedule.text, fieldsOf(schedule.text)));
    const std::vector<int64_t> numbers = numbersOf(*field, given.value);
    if (numbers.empty())
      return bad(fmt::format("wants {} in '{}'",
                             field->count == 1 ? "an integer" : fmt::format("{} integers", field->count),
                             given.name));
    for (int64_t number : numbers) {
      if (number < field->least || number > field->most)
        return bad(fmt::format("has {} in '{}', which takes {} to {}", number, given.name, field->least,
                               field->most));
      if (given.name == "vec" && number != 1 && number != 4)
        return bad(fmt::format("has {} in 'vec', which is 1 or 4", number));
    }
  }
  for (const Field& field : kFields)
    if (field.required && field.kind == schedule.text && !schedule.find(field.name))
      return bad(fmt::format("lacks '{}'", field.name));
  return {};
}

/// `parts{of = [map{…}, row{…}], results = [1, 2]}`.
Result<void> ScheduleVerifier::parts() {
  const Attr *of = whole_.find("of"), *results = whole_.find("results");
  if (!of || !results || whole_.dict.size() != 2)
    return bad("needs parts in `of`, and in `results` how many results each computes");
  const std::vector<int64_t> counts = results->asInts();
  if (counts.empty() || counts.size() != results->list.size() || of->list.size() != counts.size())
    return bad("needs as many numbers in `results` as parts in `of`");
  for (int64_t count : counts)
    if (count < 1 || count > INT32_MAX) return bad(fmt::format("has a part of {} results", count));
  for (const Attr& part : of->list) {
    const auto end = std::begin(kKinds) + kPartKinds;
    if (!isSchedule(part) || std::find(std::begin(kKinds), end, part.text) == end)
      return bad(fmt::format("has the part {}; parts are map, row and column", part.str()));
    TG_CHECK(one(part));
  }
  return {};
}

}  // namespace

Result<void> verifySchedule(const Attr& schedule) {
  if (!isSchedule(schedule) ||
      std::find(std::begin(kKinds), std::end(kKinds), schedule.text) == std::end(kKinds)) {
    std::string known;
    for (std::string_view kind : kKinds) known += fmt::format("{}{}", known.empty() ? "" : ", ", kind);
    return fail(fmt::format("schedule {} is unknown; known: {}", schedule.str(), known));
  }
  return ScheduleVerifier(schedule).run();
}

}  // namespace tg
