// SPDX-License-Identifier: Apache-2.0
#include "ir/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "ir/divide.h"
#include "ir/json_text.h"
#include "ir/verify.h"

namespace tg {
namespace {

/// The shipped targets, in the order of the columns of traits.def.
constexpr std::string_view kShipped[] = {"gpu", "gpu-coopmat", "lavapipe", "vulkan-min"};

Target shipped(size_t column) {
  Target target;
  target.name = kShipped[column];
#define NUMBER(member, name, a, b, c, d, ...) \
  constexpr int64_t member[] = {a, b, c, d};  \
  target.member = member[column];
#define FLAG(member, name, a, b, c, d, ...) \
  constexpr bool member[] = {a, b, c, d};   \
  target.member = member[column];
#define WORD(member, name, one, other, a, b, c, d, ...) \
  const char* const member[] = {a, b, c, d};            \
  target.member = member[column];
#define MATRICES(member, name, a, b, c, d, ...)         \
  const std::vector<CoopShape> member[] = {a, b, c, d}; \
  target.member = member[column];
#include "ir/traits.def"
  return target;
}

/// Calls fn(name, member) for every member, in the order in which they are printed: the only list of a target's
/// fields.
template <class T, class Fn>
void eachMember(T& target, Fn fn) {
  fn("name", target.name);
#define NUMBER(member, name, ...) fn(name, target.member);
#define FLAG(member, name, ...) fn(name, target.member);
#define WORD(member, name, ...) fn(name, target.member);
#define MATRICES(member, name, ...) fn(name, target.member);
#include "ir/traits.def"
}

template <class T>
constexpr bool isShapes = std::is_same_v<std::decay_t<T>, std::vector<CoopShape>>;

/// Sets the element types of a shape: operands f16, bf16 or f32, sums f16 or f32. False for others.
bool readElements(const std::string& operand, const std::string& result, CoopShape& shape) {
  const auto operands = dtypeNamed(operand), results = dtypeNamed(result);
  if (!operands || !results || !isFloat(*operands) || !isFloat(*results) || *results == DType::bf16)
    return false;
  shape.operand = *operands;
  shape.result = *results;
  return true;
}

/// Whether a JSON value is a whole number that an int64_t holds.
bool isWhole(const Json& json) {
  return json.is_number_integer() &&
         (!json.is_number_unsigned() || json.get<uint64_t>() <= std::numeric_limits<int64_t>::max());
}

/// Reads `[[16, 16, 16, "f16", "f32"]]`: m, n, k, the element type of A and B, that of C.
bool readShapes(const Json& json, std::vector<CoopShape>& shapes) {
  shapes.clear();
  if (!json.is_array()) return false;
  for (const Json& row : json) {
    if (!row.is_array() || row.size() != 5 || !row[3].is_string() || !row[4].is_string()) return false;
    for (int at = 0; at < 3; ++at)
      if (!isWhole(row[at]) || row[at].get<int64_t>() < 1) return false;
    CoopShape& shape = shapes.emplace_back(CoopShape{row[0].get<int64_t>(), row[1].get<int64_t>(),
                                                     row[2].get<int64_t>(), DType::f16, DType::f32});
    if (!readElements(row[3].get<std::string>(), row[4].get<std::string>(), shape)) return false;
  }
  return true;
}

Json shapesToJson(const std::vector<CoopShape>& shapes) {
  Json out = Json::array();
  for (const CoopShape& each : shapes)
    out.push_back(Json::array({each.m, each.n, each.k, name(each.operand), name(each.result)}));
  return out;
}

Json membersOf(const Target& target) {
  Json json;
  eachMember(target, [&](const char* name, const auto& member) {
    if constexpr (isShapes<decltype(member)>)
      json[name] = shapesToJson(member);
    else
      json[name] = member;
  });
  return json;
}

/// A member's value as JSON; an object for what no member can be.
Json jsonOf(const Attr& attr) {
  switch (attr.kind) {
  case Attr::Kind::boolean: return attr.integer != 0;
  case Attr::Kind::integer: return attr.integer;
  case Attr::Kind::real: return attr.real;
  case Attr::Kind::string: return attr.text;
  case Attr::Kind::array: {
    Json elements = Json::array();
    for (const Attr& each : attr.list) elements.push_back(jsonOf(each));
    return elements;
  }
  default: return Json::object();
  }
}

Attr attrOf(const Json& json) {
  if (json.is_boolean()) return Attr::boolean(json.get<bool>());
  if (json.is_string()) return Attr::string(json.get<std::string>());
  if (!json.is_array()) return Attr::of(json.get<int64_t>());
  std::vector<Attr> elements;
  for (const Json& each : json) elements.push_back(attrOf(each));
  return Attr::array(std::move(elements));
}

/// The largest subgroup in Vulkan.
constexpr int64_t kMostSubgroup = 128;

/// Sums of a few limits then fit 64 bits.
bool isLimit(int64_t value) { return value > 0 && value <= kMaxBytes; }

Result<void> checkMembers(const Target& target) {
  auto oneOf = [&](std::string_view member, const std::string& value, std::string_view a,
                   std::string_view b) -> Result<void> {
    if (value == a || value == b) return {};
    return fail("target '{}': {} = \"{}\" is neither \"{}\" nor \"{}\"", target.name, member, value, a, b);
  };
#define NUMBER(...)
#define FLAG(...)
#define WORD(member, name, a, b, ...) TG_CHECK(oneOf(name, target.member, a, b));
#define MATRICES(...)
#include "ir/traits.def"
  std::string wrong;
  eachMember(target, [&](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, int64_t>)
      if (!isLimit(member)) wrong = fmt::format("{} = {}", name, member);
  });
  if (!wrong.empty()) return fail("target '{}': {} is not in 1 … {}", target.name, wrong, kMaxBytes);
  if (target.subgroup > kMostSubgroup || (target.subgroup & (target.subgroup - 1)))
    return fail("target '{}': subgroup {} is not a power of two of at most {}", target.name, target.subgroup,
                kMostSubgroup);
  // A power of two of at least one texel, so that offsets can be represented on every device. Vulkan allows 256 at most.
  if (target.alignment < 16 || target.alignment > 256 || (target.alignment & (target.alignment - 1)))
    return fail("target '{}': alignment {} is not a power of two from 16 to 256", target.name,
                target.alignment);
  if (target.allocation % target.alignment)
    return fail("target '{}': allocation {} is not a multiple of alignment {}", target.name,
                target.allocation, target.alignment);
  return {};
}

}  // namespace

const CoopShape* Target::shapeFor(const CoopShape& wanted) const {
  const CoopShape* best = nullptr;
  for (const CoopShape& each : coopmat) {
    const bool divides = wanted.m % each.m == 0 && wanted.n % each.n == 0 && wanted.k % each.k == 0;
    const bool larger = !best || each.m * each.n * each.k > best->m * best->n * best->k;
    if (divides && larger && each.operand == wanted.operand && each.result == wanted.result) best = &each;
  }
  return best;
}

bool Target::multiplies(DType operand) const {
  return subgroups && subgroup > 1 && shapeFor({16, 16, 16, operand, DType::f32});
}

bool Target::knowsFragments(DType operand) const {
  constexpr int64_t kQuadInvocations = 32;
  const CoopShape whole{16, 16, 16, operand, DType::f32};
  return fragments == "quads" && subgroup == kQuadInvocations && multiplies(operand) &&
         *shapeFor(whole) == whole;
}

std::vector<std::string_view> targetNames() { return {std::begin(kShipped), std::end(kShipped)}; }

Result<Target> targetByName(std::string_view name) {
  std::string known;
  for (size_t column = 0; column < std::size(kShipped); ++column) {
    if (kShipped[column] == name) return shipped(column);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", kShipped[column]);
  }
  return fail("no target '{}'; known: {}", name, known);
}

std::vector<TraitRow> traitRows() {
  std::vector<TraitRow> rows{
#define NUMBER(member, name, a, b, c, d, meaning) {name, meaning, {}},
#define FLAG(member, name, a, b, c, d, meaning) {name, meaning, {}},
#define WORD(member, name, one, other, a, b, c, d, meaning) {name, meaning, {}},
#define MATRICES(member, name, a, b, c, d, meaning) {name, meaning, {}},
#include "ir/traits.def"
  };
  for (size_t column = 0; column < std::size(kShipped); ++column) {
    const Json json = membersOf(shipped(column));
    for (TraitRow& row : rows) {
      const Json& value = json[std::string(row.name)];
      row.values.push_back(value.is_string() ? value.get<std::string>() : jsonText(value));
    }
  }
  return rows;
}

/// The error `file:2:13: not JSON: unexpected number literal; expected ':'`, in the words of nlohmann's parser. A number
/// that is too large has no place: `file: not JSON: number overflow parsing '1e999'`.
static Error notJson(std::string_view text, std::string_view file, const Json::exception& error) {
  std::string place(file);
  std::string_view why = error.what();  // "[json.exception.parse_error.101] parse error at … - unexpected …"
  why.remove_prefix(std::min(why.find("] ") + 2, why.size()));
  if (const auto* syntax = dynamic_cast<const Json::parse_error*>(&error)) {
    const std::string_view before = text.substr(0, std::min(syntax->byte, text.size() + 1) - 1);
    place += fmt::format(":{}:{}", std::ranges::count(before, '\n') + 1,
                         before.size() - (before.rfind('\n') + 1) + 1);
    why.remove_prefix(std::min(why.find(" - ") + 3, why.size()));
  }
  return fail("{}: not JSON: {}", place, why);
}

/// Parses a JSON object in which no member occurs twice; nlohmann's parser would keep the last of two.
static Result<Json> objectOf(std::string_view text, std::string_view file) {
  std::set<std::string> members;
  std::string twice;
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event != Json::parse_event_t::key || depth != 1) return true;
    if (const auto name = parsed.get<std::string>(); !members.insert(name).second && twice.empty())
      twice = name;
    return true;
  };
  try {
    Json json = Json::parse(text, watch);
    if (!json.is_object()) return fail("{}: expected a JSON object such as {{\"bindings\": 8}}", file);
    if (!twice.empty()) return fail("{}: member '{}' is given twice", file, twice);
    return json;
  } catch (const Json::exception& error) {
    return notJson(text, file, error);
  }
}

/// The target with the given members. Errors begin with `where`.
static Result<Target> targetOfMembers(const Json& given, std::string_view where) {
  Target target;  // missing members are those of vulkan-min
  target.name = "unnamed";
  std::set<std::string_view> known;
  std::string wrong;
  eachMember(target, [&](const char* name, auto& member) {
    known.insert(name);
    auto it = given.find(name);
    if (it == given.end()) return;
    using T = std::decay_t<decltype(member)>;
    auto expect = [&](bool fits, const char* what) {
      if (!fits && wrong.empty())
        wrong = fmt::format("member '{}': expected {}{}", name, what,
                            it->is_structured() ? "" : ", not " + jsonText(*it));
      return fits;
    };
    if constexpr (isShapes<T>) {
      expect(readShapes(*it, member), "a list of shapes such as [[16, 16, 16, \"f16\", \"f32\"]]");
    } else {
      const bool fits = std::is_same_v<T, std::string> ? expect(it->is_string(), "a text in quotes")
                        : std::is_same_v<T, bool>      ? expect(it->is_boolean(), "true or false")
                                                       : expect(isWhole(*it), "a whole number below 2^63");
      if (fits) member = it->template get<T>();
    }
  });
  if (!wrong.empty()) return fail("{}: {}", where, wrong);
  for (const auto& item : given.items())
    if (!known.contains(item.key())) return fail("{}: unknown member '{}'", where, item.key());
  // By default an allocation holds the largest binding.
  if (isLimit(target.alignment) && isLimit(target.storageRange) && !given.contains("allocation"))
    target.allocation = std::max(target.allocation, alignTo(target.storageRange, target.alignment));
  return target;
}

Result<Target> targetFromJson(std::string_view text, std::string_view file) {
  TG_TRY(const Json json, objectOf(text, file));
  TG_TRY(Target target, targetOfMembers(json, file));
  if (auto good = checkMembers(target); !good) return fail("{}: {}", file, good.error().message());
  return target;
}

std::string targetToJson(const Target& target) { return jsonText(membersOf(target), 2) + "\n"; }

Attr targetToAttr(const Target& target) {
  AttrList members;
  const Json json = membersOf(target);
  for (const auto& member : json.items()) members.push_back({member.key(), attrOf(member.value())});
  return Attr::dictionary(std::move(members));
}

Result<Target> targetFromAttr(const Attr& attr) {
  if (attr.kind != Attr::Kind::dict) return fail("the module's target attribute is not {member = value, …}");
  Json members = Json::object();
  for (const NamedAttr& given : attr.dict) members[given.name] = jsonOf(given.value);
  TG_TRY(Target target, targetOfMembers(members, "the module's target"));
  TG_CHECK(checkMembers(target));
  return target;
}

Result<Target> targetOf(const AttrList& attrs) {
  const Attr* written = find(attrs, "target");
  return written ? targetFromAttr(*written) : Target{};
}

std::string targetOption(const Target& target) {
  std::string line;
  bool indent = false;
  for (char c : targetToJson(target)) {
    indent = c == '\n' || (indent && c == ' ');
    if (!indent) line += c;
  }
  return line;
}

}  // namespace tg
