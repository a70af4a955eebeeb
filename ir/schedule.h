// SPDX-License-Identifier: Apache-2.0
// Schedules: how a region becomes one kernel, as `schedule =` and tuning files give it. The rows of ir/schedules.def
// are the kinds and their fields; each kind is a struct here.
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
  elements,      ///< an operand that it reads only at the element that it writes
  loneElements,  ///< the same, if the kernel has no other result
  rows,     ///< the same, or an operand whose row it has read completely before it writes an element of it
  inout,    ///< the operand of a custom kernel's inout parameter
  itsPart,  ///< as the part that computes the result says
};

#define KIND(word, Struct, ...) struct Struct;
#include "ir/schedules.def"

namespace schedule_detail {
template <class None, class... Kinds>
struct VariantOf {
  using type = std::variant<Kinds...>;
};
}  // namespace schedule_detail

/// A schedule that may be one of several parts of a kernel.
using PartSchedule = schedule_detail::VariantOf<void
#define PART(word, Struct, ...) , Struct
#define KIND(...)
#include "ir/schedules.def"
                                                >::type;

// A struct for each row, whose fields have their defaults. `visitFields(v)` calls v(the field's number in the row,
// field, default) for each field.
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

/// Any schedule; std::get_if and std::visit tell the kind.
using Schedule = schedule_detail::VariantOf<void
#define KIND(word, Struct, ...) , Struct
#include "ir/schedules.def"
                                            >::type;

/// Reads `map{vec = 4}`; fields that are left out have their defaults. An error names the schedule and the field that
/// is malformed or out of range. Whether the numbers suit a region, such as a tile that divides a product, is checked
/// where the kernel is made (codegen/lower.h).
Result<Schedule> parseSchedule(const Attr& text);
/// The same for the schedule of a tg.fused: operands and results that it names by number must exist.
Result<Schedule> scheduleFor(const Op& fused, const Attr& text);
/// The schedule of a tg.fused of a verified module.
Schedule scheduleOf(const Op& fused);
/// The text form of a schedule; parseSchedule reads it back.
Attr scheduleAttr(const Schedule& schedule);
/// A part as a schedule of its own.
Schedule wholeSchedule(const PartSchedule& part);

/// Whether a column kernel has more invocations than results. Those beyond the end compute results that other
/// invocations store.
inline bool hasSurplus(const ColumnSchedule& schedule, int64_t results) {
  return results % (schedule.vec * schedule.side) != 0;
}
/// How the kernel reads its operands: the fields `storage` and `scalars`, which all kinds but custom have.
std::vector<int64_t> storageReads(const Schedule& schedule);
bool readsScalars(const Schedule& schedule);
void setReads(Schedule& schedule, std::vector<int64_t> storage, bool scalars);
/// The name of the schedule's kind.
std::string_view scheduleKind(const Schedule& schedule);
/// Over which operand's bytes a schedule of this kind may write, from its row.
TakesOver takesOver(const Schedule& schedule);

/// The rows, for documentation.
struct ScheduleField {
  std::string_view name, fallback;  ///< no default: the text must give it
  std::string limit;                ///< "1 to 1024"; for each of the numbers
  size_t count = 1;                 ///< how many numbers or flags; 0 for any number of them
  std::string_view meaning;
};
struct ScheduleRow {
  std::string_view kind, meaning;
  bool isPart = false;
  std::vector<ScheduleField> fields;
};
const std::vector<ScheduleRow>& scheduleRows();

}  // namespace tg
