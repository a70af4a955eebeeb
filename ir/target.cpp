// SPDX-License-Identifier: Apache-2.0
#include "ir/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/verify_structure.h"

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
  fn("loop_iterations", target.loopIterations);
  fn("subgroup", target.subgroup);
  fn("subgroups", target.subgroups);
  fn("float_atomics", target.floatAtomics);
  fn("half_storage", target.halfStorage);
  fn("coopmat", target.coopmat);
  fn("matrices", target.matrices);
  fn("fragments", target.fragments);
  fn("reads", target.reads);
  fn("reduce", target.reduce);
  fn("matmul", target.matmul);
  fn("workgroup", target.workgroup);
  fn("parallel", target.parallel);
  fn("stream_scores", target.streamScores);
  fn("kernel_ops", target.kernelOps);
}

template <class T>
constexpr bool isShapes = std::is_same_v<std::decay_t<T>, std::vector<CoopShape>>;

/// What matrices hold: operands f16, bf16 or f32, sums f16 or f32.
bool readElements(const std::string& operand, const std::string& result, CoopShape& shape) {
  const auto operands = dtypeNamed(operand), results = dtypeNamed(result);
  if (!operands || !results || !isFloat(*operands) || !isFloat(*results) || *results == DType::bf16)
    return false;
  shape.operand = *operands;
  shape.result = *results;
  return true;
}

/// `[[16, 16, 16, "f16", "f32"]]`: m, n, k, what A and B hold, what C holds.
bool readShapes(const Json& json, std::vector<CoopShape>& shapes) {
  shapes.clear();
  if (!json.is_array()) return false;
  for (const Json& row : json) {
    if (!row.is_array() || row.size() != 5 || !row[3].is_string() || !row[4].is_string()) return false;
    for (int at = 0; at < 3; ++at)
      if (!row[at].is_number_integer() || row[at].get<int64_t>() < 1) return false;
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

bool readShapes(const Attr& attr, std::vector<CoopShape>& shapes) {
  shapes.clear();
  if (attr.kind != Attr::Kind::array) return false;
  for (const Attr& row : attr.list) {
    if (row.kind != Attr::Kind::array || row.list.size() != 5) return false;
    for (int at = 0; at < 3; ++at)
      if (row.list[at].kind != Attr::Kind::integer || row.list[at].integer < 1) return false;
    CoopShape& shape = shapes.emplace_back(
        CoopShape{row.list[0].integer, row.list[1].integer, row.list[2].integer, DType::f16, DType::f32});
    if (!readElements(row.list[3].text, row.list[4].text, shape)) return false;
  }
  return true;
}

Attr shapesToAttr(const std::vector<CoopShape>& shapes) {
  std::vector<Attr> rows;
  for (const CoopShape& each : shapes)
    rows.push_back(Attr::array({Attr::of(each.m), Attr::of(each.n), Attr::of(each.k),
                                Attr::string(std::string(name(each.operand))),
                                Attr::string(std::string(name(each.result)))}));
  return Attr::array(std::move(rows));
}

/// Sums of a few limits then fit 64 bits.
bool isLimit(int64_t value) { return value > 0 && value <= kMaxBytes; }

Result<void> checkMembers(const Target& target) {
  auto oneOf = [&](std::string_view member, const std::string& value, std::string_view a,
                   std::string_view b) -> Result<void> {
    if (value == a || value == b) return {};
    return fail(fmt::format("target '{}': {} = \"{}\" is neither \"{}\" nor \"{}\"", target.name, member,
                            value, a, b));
  };
  TG_CHECK(oneOf("matrices", target.matrices, "khr", "nv"));
  TG_CHECK(oneOf("fragments", target.fragments, "opaque", "quads"));
  TG_CHECK(oneOf("reads", target.reads, "storage", "texel"));
  TG_CHECK(oneOf("reduce", target.reduce, "lane", "workgroup"));
  TG_CHECK(oneOf("matmul", target.matmul, "register", "shared"));
  std::string wrong;
  eachMember(target, [&](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, int64_t>)
      if (!isLimit(member)) wrong = fmt::format("{} = {}", name, member);
  });
  if (!wrong.empty())
    return fail(fmt::format("target '{}': {} is not in 1 … {}", target.name, wrong, kMaxBytes));
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

bool Target::multiplies(DType operand) const {
  return subgroups && subgroup > 1 &&
         std::find(coopmat.begin(), coopmat.end(), CoopShape{16, 16, 16, operand, DType::f32}) !=
             coopmat.end();
}

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
    if constexpr (isShapes<T>) {
      if (!readShapes(*it, member)) wrong = name;
    } else {
      bool fits = std::is_same_v<T, std::string> ? it->is_string()
                  : std::is_same_v<T, bool>      ? it->is_boolean()
                                                 : it->is_number_integer();
      if (fits)
        member = it->template get<T>();
      else
        wrong = name;
    }
  });
  if (!wrong.empty()) return fail(fmt::format("{}: member '{}' has the wrong type", file, wrong));
  for (const auto& item : json.items()) {
    const std::string& key = item.key();
    bool known = false;
    eachMember(target, [&](std::string_view name, auto&) { known = known || name == key; });
    if (!known) return fail(fmt::format("{}: unknown member '{}'", file, key));
  }
  if (isLimit(target.alignment) && isLimit(target.storageRange) && !json.contains("allocation"))
    defaultAllocation(target);
  TG_CHECK(checkMembers(target));
  return target;
}

std::string targetToJson(const Target& target) {
  Json json;
  eachMember(target, [&](const char* name, const auto& member) {
    if constexpr (isShapes<decltype(member)>)
      json[name] = shapesToJson(member);
    else
      json[name] = member;
  });
  return json.dump(2) + "\n";
}

Attr targetToAttr(const Target& target) {
  AttrList members;
  eachMember(target, [&](const char* name, const auto& member) {
    using T = std::decay_t<decltype(member)>;
    if constexpr (isShapes<T>)
      members.push_back({name, shapesToAttr(member)});
    else if constexpr (std::is_same_v<T, std::string>)
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
      if constexpr (isShapes<T>) {
        known = readShapes(given.value, member);
        return;
      }
      known = given.value.kind == (std::is_same_v<T, std::string> ? Attr::Kind::string
                                   : std::is_same_v<T, bool>      ? Attr::Kind::boolean
                                                                  : Attr::Kind::integer);
      if constexpr (std::is_same_v<T, std::string>)
        member = given.value.text;
      else if constexpr (!isShapes<T>)
        member = given.value.integer;
    });
    if (!known) wrong = given.name;
  }
  if (attr.kind != Attr::Kind::dict || !wrong.empty())
    return fail(
        fmt::format("the module's target attribute is malformed{}{}", wrong.empty() ? "" : " at ", wrong));
  if (isLimit(target.alignment) && isLimit(target.storageRange) && !attr.find("allocation"))
    defaultAllocation(target);
  TG_CHECK(checkMembers(target));
  return target;
}

Result<Target> targetOf(const AttrList& attrs) {
  const Attr* written = find(attrs, "target");
  return written ? targetFromAttr(*written) : Target{};
}

}  // namespace tg
