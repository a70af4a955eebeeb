#include "ir/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tg {
namespace {

using Json = nlohmann::ordered_json;

// codegen/targets/*.json, embedded by the build as {name, text} pairs.
constexpr std::pair<std::string_view, std::string_view> kShipped[] = {
#include "ir/targets.inc"
};

/// Calls fn(name, member) for every member, in printing order: the one list of a target's fields.
template <class T, class Fn>
void eachMember(T& target, Fn fn) {
  fn("name", target.name);
  fn("max_invocations", target.maxInvocations);
  fn("max_workgroup_x", target.maxWorkgroupX);
  fn("max_grid", target.maxGrid);
  fn("shared_bytes", target.sharedBytes);
  fn("storage_range", target.storageRange);
  fn("allocation", target.allocation);
  fn("texel_elements", target.texelElements);
  fn("bindings", target.bindings);
  fn("alignment", target.alignment);
  fn("subgroup", target.subgroup);
  fn("subgroups", target.subgroups);
  fn("float_atomics", target.floatAtomics);
  fn("half_storage", target.halfStorage);
  fn("reads", target.reads);
  fn("reduce", target.reduce);
  fn("matmul", target.matmul);
  fn("workgroup", target.workgroup);
  fn("parallel", target.parallel);
  fn("stream_scores", target.streamScores);
}

Result<void> check(const Target& target) {
  auto oneOf = [&](std::string_view member, const std::string& value, std::string_view a,
                   std::string_view b) -> Result<void> {
    if (value == a || value == b) return {};
    return fail(fmt::format("target '{}': {} = \"{}\" is neither \"{}\" nor \"{}\"", target.name, member,
                            value, a, b));
  };
  TG_CHECK(oneOf("reads", target.reads, "storage", "texel"));
  TG_CHECK(oneOf("reduce", target.reduce, "lane", "workgroup"));
  TG_CHECK(oneOf("matmul", target.matmul, "register", "shared"));
  bool positive = true;
  eachMember(target, [&](std::string_view, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, int64_t>) positive = positive && member > 0;
  });
  if (!positive) return fail(fmt::format("target '{}': every limit must be positive", target.name));
  // Offsets stay representable on every device when they are a power of two of at least a texel.
  if (target.alignment < 16 || (target.alignment & (target.alignment - 1)))
    return fail(fmt::format("target '{}': alignment {} is no power of two of 16 or more", target.name,
                            target.alignment));
  if (target.allocation % target.alignment)
    return fail(fmt::format("target '{}': allocation {} is no multiple of alignment {}", target.name,
                            target.allocation, target.alignment));
  return {};
}

/// Where none is given, an allocation holds the largest binding.
void defaultAllocation(Target& target) {
  const int64_t range = (target.storageRange + target.alignment - 1) / target.alignment * target.alignment;
  target.allocation = std::max(target.allocation, range);
}

}  // namespace

std::vector<std::string_view> targetNames() {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : kShipped) names.push_back(name);
  return names;
}

Result<Target> targetByName(std::string_view name) {
  std::string known;
  for (const auto& [shipped, text] : kShipped) {
    if (shipped == name) return targetFromJson(text, shipped);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", shipped);
  }
  return fail(fmt::format("no target '{}'; known: {}", name, known));
}

Result<Target> targetFromJson(std::string_view text, std::string_view file) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(fmt::format("{}: not a JSON object", file));
  Target target;
  std::string wrong;
  size_t used = 0;
  eachMember(target, [&](const char* name, auto& member) {
    auto it = json.find(name);
    if (it == json.end()) return;
    ++used;
    using T = std::decay_t<decltype(member)>;
    bool fits = std::is_same_v<T, std::string> ? it->is_string()
                : std::is_same_v<T, bool>      ? it->is_boolean()
                                               : it->is_number_integer();
    if (fits)
      member = it->template get<T>();
    else
      wrong = name;
  });
  if (!wrong.empty()) return fail(fmt::format("{}: member '{}' has the wrong type", file, wrong));
  for (const auto& [key, value] : json.items()) {
    bool known = false;
    eachMember(target, [&](std::string_view name, auto&) { known = known || name == key; });
    if (!known) return fail(fmt::format("{}: unknown member '{}'", file, key));
  }
  if (target.alignment > 0 && !json.contains("allocation")) defaultAllocation(target);
  TG_CHECK(check(target));
  return target;
}

std::string targetToJson(const Target& target) {
  Json json;
  eachMember(target, [&](const char* name, const auto& member) { json[name] = member; });
  return json.dump(2) + "\n";
}

Attr targetToAttr(const Target& target) {
  AttrList members;
  eachMember(target, [&](const char* name, const auto& member) {
    using T = std::decay_t<decltype(member)>;
    if constexpr (std::is_same_v<T, std::string>)
      members.push_back({name, Attr::string(member)});
    else if constexpr (std::is_same_v<T, bool>)
      members.push_back({name, Attr::boolean(member)});
    else
      members.push_back({name, Attr::of(member)});
  });
  return Attr::dictionary(std::move(members));
}

Result<Target> targetFromAttr(const Attr& attr) {
  Target target;
  std::string wrong;
  for (const NamedAttr& given : attr.dict) {
    bool known = false;
    eachMember(target, [&](std::string_view name, auto& member) {
      if (name != given.name) return;
      using T = std::decay_t<decltype(member)>;
      known = given.value.kind == (std::is_same_v<T, std::string> ? Attr::Kind::string
                                   : std::is_same_v<T, bool>      ? Attr::Kind::boolean
                                                                  : Attr::Kind::integer);
      if constexpr (std::is_same_v<T, std::string>)
        member = given.value.text;
      else
        member = given.value.integer;
    });
    if (!known) wrong = given.name;
  }
  if (attr.kind != Attr::Kind::dict || !wrong.empty())
    return fail(
        fmt::format("the module's target attribute is malformed{}{}", wrong.empty() ? "" : " at ", wrong));
  if (target.alignment > 0 && !attr.find("allocation")) defaultAllocation(target);
  TG_CHECK(check(target));
  return target;
}

Result<Target> targetOf(const AttrList& attrs) {
  const Attr* written = find(attrs, "target");
  return written ? targetFromAttr(*written) : Target{};
}

}  // namespace tg
