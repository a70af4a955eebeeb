// SPDX-License-Identifier: Apache-2.0
// Schedules: how a region becomes one kernel, as it stands behind `schedule =` and in tuning files. The rows
// of ir/schedules.def are the kinds and their fields; each is a struct here.
//
//   schedule = matmul{tile = [8, 8], depth = 4}   MatmulSchedule{.tile = {8, 8}, .depth = 4}, workgroup = 8
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/attr.h"
#include "ir/result.h"

namespace tg {

struct Op;

/// Over which operand's bytes a kernel may write a result (ir/access.h).
enum class TakesOver : uint8_t {
  nothing,
  elements,      ///< one that it reads only at the element it writes
  loneElements,  ///< the same, where the kernel has no other result
  rows,          ///< the same, or one of which it has read the whole row before it writes
  inout,         ///< that of a custom kernel's inout parameter
  itsPart,       ///< as the part says that computes the result
};

#define KIND(word, Struct, ...) struct Struct;
#include "ir/schedules.def"

namespace schedule_detail {
template <class None, class... Kinds>
struct VariantOf {
  using type = std::variant<Kinds...>;
};
}  // namespace schedule_detail

/// What may stand beside others in one kernel.
using PartSchedule = schedule_detail::VariantOf<void
#define PART(word, Struct, ...) , Struct
#define KIND(...)
#include "ir/schedules.def"
                                                >::type;

// A struct for each row, its fields with their defaults. `visitFields(v)` calls v(name's place in the row,
// field, default) for each.
#define KIND(word, Struct, ...) struct Struct {
#define NUMBER(name, fallback, ...) int64_t name = fallback;
#define NUMBERS(name, count, ...) std::array<int64_t, count> name{};
#define FLAG(name, ...) bool name = false;
#define FLAGS(name, count, ...) std::array<bool, count> name{};
#define LIST(name, ...) std::vector<int64_t> name{};
#define PARTS(name, ...) std::vector<PartSchedule> name{};
#define COUNTS(name, ...) std::vector<int64_t> name{};
#define END(Struct)                               \
  bool operator==(const Struct&) const = default; \
  template <class Visitor>                        \
  void visitFields(Visitor& visit);               \
  }                                               \
  ;
#include "ir/schedules.def"

/// Any schedule; which kind it is, std::get_if and std::visit tell.
using Schedule = schedule_detail::VariantOf<void
#define KIND(word, Struct, ...) , Struct
#include "ir/schedules.def"
                                            >::type;

/// Reads `map{vec = 4}`; fields that it leaves out have their defaults. An error names the schedule and the
/// field whose form or range is wrong. Whether the numbers suit a region, such as a tile that divides a
/// product, is judged where the kernel is made (codegen/lower.h).
Result<Schedule> parseSchedule(const Attr& text);
/// The schedule that text gives a tg.fused: it counts no operands and results but those there are.
Result<Schedule> scheduleFor(const Op& fused, const Attr& text);
/// The schedule of a tg.fused of a verified module.
Schedule scheduleOf(const Op& fused);
/// The text of a schedule: parseSchedule gives an equal one back.
Attr scheduleAttr(const Schedule& schedule);
/// A part as a schedule of its own.
Schedule wholeSchedule(const PartSchedule& part);

/// Whether a column kernel has more invocations than it needs. Those beyond the end compute results that others store.
inline bool hasSurplus(const ColumnSchedule& schedule, int64_t results) {
  return results % (schedule.vec * schedule.side) != 0;
}
/// How it reads: the fields `storage` and `scalars`, which all kinds but custom have.
std::vector<int64_t> storageReads(const Schedule& schedule);
bool readsScalars(const Schedule& schedule);
void setReads(Schedule& schedule, std::vector<int64_t> storage, bool scalars);
/// The word of its kind.
std::string_view scheduleKind(const Schedule& schedule);
/// What the rows say of a kind.
TakesOver takesOver(const Schedule& schedule);

/// The rows, for documentation.
struct ScheduleField {
  std::string_view name, fallback;  ///< no fallback: it has to be given
  std::string limit;                ///< "1 to 1024"; of each number
  size_t count = 1;                 ///< numbers or flags; 0 for any number
  std::string_view meaning;
};
struct ScheduleRow {
  std::string_view kind, meaning;
  bool isPart = false;
  TakesOver takes = TakesOver::nothing;
  std::vector<ScheduleField> fields;
};
const std::vector<ScheduleRow>& scheduleRows();

}  // namespace tg
