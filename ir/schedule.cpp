// SPDX-License-Identifier: Apache-2.0
// Reads, checks and prints schedules, from the rows of ir/schedules.def.
#include "ir/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <type_traits>

#include "ir/module.h"
#include "ir/text.h"

namespace tg {
// A named namespace: other sources may be compiled together with this one, and its names must not clash with theirs.
namespace schedule_detail {
namespace {

constexpr int64_t kMostLanes = 1024;  ///< most invocations of a workgroup on any device
constexpr int64_t kMostTile = 256;    ///< most elements along an axis that an invocation holds in registers
constexpr int64_t kMostBlock = 4096;  ///< most elements along an axis that a workgroup computes

enum class Given : uint8_t { always, shown, ifOther };
using enum Given;

/// The values that a field may have.
struct Limit {
  enum class Form : uint8_t { span, either, power } form;
  int64_t least, most;

  bool admits(int64_t number) const {
    const bool inside = number >= least && number <= most;
    if (form == Form::either) return number == least || number == most;
    return form == Form::power ? inside && (number & (number - 1)) == 0 : inside;
  }
  std::string str() const {
    const std::string range = fmt::format("{} to {}", least, most);
    if (form == Form::either) return fmt::format("{} or {}", least, most);
    return form == Form::power ? "a power of two, " + range : range;
  }
};
constexpr Limit span(int64_t least, int64_t most) { return {Limit::Form::span, least, most}; }
constexpr Limit either(int64_t one, int64_t other) { return {Limit::Form::either, one, other}; }
constexpr Limit power(int64_t least, int64_t most) { return {Limit::Form::power, least, most}; }

enum class FieldForm : uint8_t { number, numbers, flags, parts, counts };

struct FieldRow {
  std::string_view name;
  FieldForm form;
  size_t count;
  std::string_view fallback;
  Limit limit;
  Given given;
  std::string_view meaning;
};

struct KindRow {
  std::string_view kind;
  bool isPart;
  TakesOver takes;
  std::string_view meaning;
  std::vector<FieldRow> fields;
};

/// The rows of ir/schedules.def as data, in order.
const std::vector<KindRow>& kinds() {
  static const std::vector<KindRow> rows = {
#define PART(word, Struct, takes, meaning) \
  {                                        \
#word, true, TakesOver::takes, meaning, {
#define KIND(word, Struct, takes, meaning) {#word, false, TakesOver::takes, meaning, {
#define NUMBER(name, fallback, limit, given, meaning) \
  {#name, FieldForm::number, 1, #fallback, limit, given, meaning},
#define NUMBERS(name, count, limit, given, meaning) \
  {#name, FieldForm::numbers, count, "", limit, given, meaning},
#define FLAG(name, meaning) {#name, FieldForm::flags, 1, "false", span(0, 0), ifOther, meaning},
#define FLAGS(name, count, meaning) {#name, FieldForm::flags, count, "false", span(0, 0), ifOther, meaning},
#define LIST(name, limit, meaning) {#name, FieldForm::counts, 0, "[]", limit, ifOther, meaning},
#define PARTS(name, meaning) {#name, FieldForm::parts, 0, "", span(0, 0), always, meaning},
#define COUNTS(name, meaning) {#name, FieldForm::counts, 0, "", span(1, INT32_MAX), always, meaning},
#define END(Struct) \
  }                 \
  }                 \
  ,
#include "ir/schedules.def"
  };
  return rows;
}

/// The allowed values of a field in words, for documentation; "" for parts.
std::string limitOf(const FieldRow& field) {
  if (field.form == FieldForm::parts) return "";
  return field.form == FieldForm::flags ? "true or false" : field.limit.str();
}

std::string known(bool parts, std::string_view last = ", ") {
  std::vector<std::string_view> words;
  for (const KindRow& row : kinds())
    if ((row.isPart || !parts) && (words.empty() || words.back() != row.kind)) words.push_back(row.kind);
  const std::string_view end = words.back();
  words.pop_back();
  return fmt::format("{}{}{}", fmt::join(words, ", "), last, end);
}

bool isScheduleForm(const Attr& attr) {
  return attr.kind == Attr::Kind::word || (attr.kind == Attr::Kind::call && !attr.angle && attr.list.empty());
}

/// The number of the row that a text means. Of several rows with this kind, the one of whose required fields the text
/// has most, and lacks fewest. -1 for an unknown kind.
int rowOf(const Attr& text) {
  int best = -1;
  std::pair<int, int> most;
  for (size_t i = 0; i < kinds().size(); ++i) {
    if (kinds()[i].kind != text.text) continue;
    std::pair<int, int> has;
    for (const FieldRow& field : kinds()[i].fields)
      if (field.given == always) ++(text.find(field.name) ? has.first : has.second);
    has.second = -has.second;
    if (best < 0 || has > most) best = static_cast<int>(i), most = has;
  }
  return best;
}

/// Reads a schedule's fields from a text in order, up to the first error.
class ScheduleReader {
 public:
  ScheduleReader(const Attr& whole, const Attr& text, const KindRow& row)
      : whole_(whole), text_(text), row_(row) {}

  void operator()(size_t at, int64_t& number, int64_t fallback) {
    number = fallback;
    if (const Attr* given = take(at)) {
      if (given->kind != Attr::Kind::integer) return bad(fmt::format("needs an integer in '{}'", name(at)));
      number = given->integer;
      checked(at, number);
    }
  }
  template <size_t count>
  void operator()(size_t at, std::array<int64_t, count>& numbers) {
    const Attr* given = take(at);
    if (!given) return;
    const std::vector<int64_t> list = given->asInts();
    if (list.size() != count || given->list.size() != count)
      return bad(fmt::format("needs {} in '{}'", countText(count, "integer"), name(at)));
    std::ranges::copy(list, numbers.begin());
    for (int64_t number : numbers) checked(at, number);
  }
  void operator()(size_t at, bool& flag) {
    const Attr* given = take(at);
    if (!given) return;
    if (given->kind != Attr::Kind::boolean) return bad(fmt::format("needs true or false in '{}'", name(at)));
    flag = given->integer != 0;
  }
  template <size_t count>
  void operator()(size_t at, std::array<bool, count>& flags) {
    const Attr* given = take(at);
    if (!given) return;
    bool good = given->kind == Attr::Kind::array && given->list.size() == count;
    for (size_t i = 0; good && i < count; ++i) {
      good = given->list[i].kind == Attr::Kind::boolean;
      flags[i] = given->list[i].integer != 0;
    }
    if (!good) bad(fmt::format("needs {} of true and false in '{}'", count, name(at)));
  }
  void operator()(size_t at, std::vector<int64_t>& counts) {
    const Attr* given = take(at);
    if (!given) return;
    counts = given->asInts();
    if (counts.empty() || counts.size() != given->list.size())
      return bad(fmt::format("needs a list of integers in '{}'", name(at)));
    for (int64_t count : counts) checked(at, count);
  }
  void operator()(size_t at, std::vector<PartSchedule>& parts);

  /// To be called after all fields: reports fields of the text that the row does not have.
  Result<void> finish() {
    for (const NamedAttr& given : text_.dict) {
      const auto& fields = row_.fields;
      if (std::ranges::none_of(fields, [&](const FieldRow& each) { return each.name == given.name; }))
        unknown(given.name);
    }
    if (error_) return fail(*error_);
    return {};
  }
  void bad(std::string_view why) {
    if (!error_) error_ = fmt::format("schedule {} {}", whole_.str(), why);
  }

 private:
  std::string_view name(size_t at) const { return row_.fields[at].name; }
  /// The value of a field in the text, or null; an error if it is missing and required.
  const Attr* take(size_t at) {
    const Attr* given = text_.find(name(at));
    if (!given && row_.fields[at].given == always) bad(fmt::format("lacks '{}'", name(at)));
    return given;
  }
  void checked(size_t at, int64_t number) {
    const Limit& limit = row_.fields[at].limit;
    if (!limit.admits(number))
      bad(fmt::format("has {} in '{}', which takes {}", number, name(at), limit.str()));
  }
  void unknown(std::string_view field) {
    std::vector<std::string_view> names;
    for (const FieldRow& each : row_.fields) names.push_back(each.name);
    // An unknown field is reported rather than an error that follows from it.
    error_.reset();
    bad(fmt::format("has no field '{}'; {} has: {}", field, row_.kind,
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }

  const Attr &whole_, &text_;
  const KindRow& row_;
  std::optional<std::string> error_;
};

/// Prints a schedule's fields.
class SchedulePrinter {
 public:
  explicit SchedulePrinter(const KindRow& row) : row_(row) {}
  void operator()(size_t at, const int64_t& number, int64_t fallback) {
    if (row_.fields[at].given != ifOther || number != fallback) add(at, Attr::of(number));
  }
  template <size_t count>
  void operator()(size_t at, const std::array<int64_t, count>& numbers) {
    add(at, Attr::ints({numbers.begin(), numbers.end()}));
  }
  void operator()(size_t at, const bool& flag) {
    if (flag) add(at, Attr::boolean(true));
  }
  template <size_t count>
  void operator()(size_t at, const std::array<bool, count>& flags) {
    std::vector<Attr> words;
    for (bool flag : flags) words.push_back(Attr::boolean(flag));
    if (flags != std::array<bool, count>{}) add(at, Attr::array(std::move(words)));
  }
  void operator()(size_t at, const std::vector<int64_t>& counts) {
    if (!counts.empty()) add(at, Attr::ints(counts));
  }
  void operator()(size_t at, const std::vector<PartSchedule>& parts) {
    std::vector<Attr> texts;
    for (const PartSchedule& part : parts) texts.push_back(scheduleAttr(wholeSchedule(part)));
    add(at, Attr::array(std::move(texts)));
  }
  Attr text() && {
    return row_.fields.empty() ? Attr::word(std::string(row_.kind))
                               : Attr::call(std::string(row_.kind), {}, std::move(members_));
  }

 private:
  void add(size_t at, Attr value) {
    members_.push_back({std::string(row_.fields[at].name), std::move(value)});
  }

  const KindRow& row_;
  AttrList members_;
};

}  // namespace
}  // namespace schedule_detail

#define KIND(word, Struct, ...)                               \
  template <class Visitor>                                    \
  void Struct::visitFields([[maybe_unused]] Visitor& visit) { \
    [[maybe_unused]] size_t at = 0;
#define NUMBER(name, fallback, ...) visit(at++, name, int64_t{fallback});
#define NUMBERS(name, ...) visit(at++, name);
#define FLAG(name, ...) visit(at++, name);
#define FLAGS(name, ...) visit(at++, name);
#define LIST(name, ...) visit(at++, name);
#define PARTS(name, ...) visit(at++, name);
#define COUNTS(name, ...) visit(at++, name);
#define END(Struct) }
#include "ir/schedules.def"

namespace schedule_detail {
namespace {

/// The schedule of row `index` with default fields.
template <size_t at = 0>
Schedule emptySchedule(size_t index) {
  if constexpr (at < std::variant_size_v<Schedule>)
    return at == index ? Schedule(std::in_place_index<at>) : emptySchedule<at + 1>(index);
  else
    return {};
}

Result<Schedule> readSchedule(const Attr& whole, const Attr& text, int row) {
  Schedule schedule = emptySchedule(static_cast<size_t>(row));
  ScheduleReader reader(whole, text, kinds()[static_cast<size_t>(row)]);
  std::visit([&](auto& kind) { kind.visitFields(reader); }, schedule);
  if (const auto* parts = std::get_if<PartsSchedule>(&schedule);
      parts && parts->of.size() != parts->results.size())
    reader.bad("needs as many numbers in 'results' as parts in 'of'");
  TG_CHECK(reader.finish());
  return schedule;
}

/// Reads a list of parts, each a schedule of a PART row.
void ScheduleReader::operator()(size_t at, std::vector<PartSchedule>& parts) {
  const Attr* given = take(at);
  if (!given) return;
  if (given->kind != Attr::Kind::array || given->list.empty())
    return bad(fmt::format("needs a list of schedules in '{}'", name(at)));
  for (const Attr& part : given->list) {
    const int row = isScheduleForm(part) ? rowOf(part) : -1;
    if (row < 0 || !kinds()[static_cast<size_t>(row)].isPart)
      return bad(fmt::format("has the part {}; parts are {}", part.str(), known(true, " and ")));
    auto read = readSchedule(whole_, part, row);
    if (!read) {
      if (!error_) error_ = read.error().message();
      return;
    }
    std::visit(
        [&](auto& kind) {
          if constexpr (std::is_constructible_v<PartSchedule, decltype(kind)>) parts.push_back(kind);
        },
        *read);
    if (!storageReads(*read).empty() || readsScalars(*read))
      return bad(fmt::format("has the part {}, but how operands are read is said of the whole", part.str()));
  }
}

}  // namespace
}  // namespace schedule_detail

Result<Schedule> parseSchedule(const Attr& text) {
  using namespace schedule_detail;
  const int row = isScheduleForm(text) ? rowOf(text) : -1;
  if (row < 0) return fail("schedule {} is unknown; known: {}", text.str(), known(false));
  return readSchedule(text, text, row);
}

Result<Schedule> scheduleFor(const Op& fused, const Attr& text) {
  TG_TRY(Schedule schedule, parseSchedule(text));
  for (int64_t operand : storageReads(schedule))
    if (operand >= fused.numOperands())
      return fail("schedule {} reads operand {} as storage; the last one is {}", text.str(), operand,
                  fused.numOperands() - 1);
  if (const auto* parts = std::get_if<PartsSchedule>(&schedule)) {
    const size_t results = fused.groups.empty() ? fused.results.size() : fused.groups.size();
    const int64_t sum = std::accumulate(parts->results.begin(), parts->results.end(), int64_t{0});
    if (sum != static_cast<int64_t>(results))
      return fail("schedule {} needs in `results` how many results each part computes, {} in all", text.str(),
                  results);
  }
  return schedule;
}

Schedule scheduleOf(const Op& fused) { return *parseSchedule(fused.attr("schedule")); }

Attr scheduleAttr(const Schedule& schedule) {
  schedule_detail::SchedulePrinter printer(schedule_detail::kinds()[schedule.index()]);
  std::visit([&](auto kind) { kind.visitFields(printer); }, schedule);
  return std::move(printer).text();
}

Schedule wholeSchedule(const PartSchedule& part) {
  return std::visit([](const auto& kind) { return Schedule(kind); }, part);
}

std::vector<int64_t> storageReads(const Schedule& schedule) {
  return std::visit(
      [](const auto& kind) -> std::vector<int64_t> {
        if constexpr (requires { kind.storage; }) return kind.storage;
        return {};
      },
      schedule);
}

bool readsScalars(const Schedule& schedule) {
  return std::visit(
      [](const auto& kind) {
        if constexpr (requires { kind.scalars; }) return kind.scalars;
        return false;
      },
      schedule);
}

void setReads(Schedule& schedule, std::vector<int64_t> storage, bool scalars) {
  std::visit(
      [&](auto& kind) {
        if constexpr (requires { kind.storage; }) kind.storage = std::move(storage), kind.scalars = scalars;
      },
      schedule);
}

std::string_view scheduleKind(const Schedule& schedule) {
  return schedule_detail::kinds()[schedule.index()].kind;
}

TakesOver takesOver(const Schedule& schedule) { return schedule_detail::kinds()[schedule.index()].takes; }

const std::vector<ScheduleRow>& scheduleRows() {
  using namespace schedule_detail;
  static const std::vector<ScheduleRow> rows = [] {
    std::vector<ScheduleRow> out;
    for (const KindRow& kind : kinds()) {
      ScheduleRow& row = out.emplace_back(ScheduleRow{kind.kind, kind.meaning, kind.isPart, {}});
      for (const FieldRow& field : kind.fields)
        row.fields.push_back({field.name, field.given == always ? "" : field.fallback, limitOf(field),
                              field.count, field.meaning});
    }
    return out;
  }();
  return rows;
}

}  // namespace tg
