// SPDX-License-Identifier: Apache-2.0
#include "ir/op_info.h"

#include <unordered_map>
#include <vector>

#include "ir/text.h"

namespace tg {

namespace table {
namespace {

// The words that ops.def uses for columns.
using enum TypeClass;
// clang-format off
#define operands(...) List<Slot, 8>{__VA_ARGS__}
#define val(name, type) Slot{#name, SlotKind::value, type},
#define opt(name, type) Slot{#name, SlotKind::optional, type},
#define vals(name, type) Slot{#name, SlotKind::values, type},
#define sym(name) Slot{#name, SlotKind::symbol, any},
#define callee(name) Slot{#name, SlotKind::callee, any},
#define lit(name) Slot{#name, SlotKind::literal, any},
#define elem(name) Slot{#name, SlotKind::element, any},
#define bind(name) Slot{#name, SlotKind::bindings, any},
#define onebind(name) Slot{#name, SlotKind::binding, any},
#define key(name) Slot{#name, SlotKind::keyword, any},
#define arglist(name) Slot{#name, SlotKind::args, any},
#define attributes(...) List<AttrRow, 6>{__VA_ARGS__}
#define index(name, fallback) AttrRow{#name, AttrKind::integer, fallback, ""},
#define real(name, fallback) AttrRow{#name, AttrKind::real, fallback, ""},
#define flag(name, fallback) AttrRow{#name, AttrKind::boolean, fallback, ""},
#define text(name, fallback) AttrRow{#name, AttrKind::string, fallback, ""},
#define word(name, fallback, choices) AttrRow{#name, AttrKind::word, fallback, choices},
#define ints(name, ...) AttrRow{#name, AttrKind::ints, "" __VA_ARGS__, ""},
#define anyattr(name, fallback) AttrRow{#name, AttrKind::any, fallback, ""},
// clang-format on

/// Exactly `count` results, or any number if negative; the last `optional` may be missing.
constexpr Results results(int count, int optional = 0) {
  return {count < 0 ? 0 : count, optional, count < 0};
}

constexpr OpInfo kOps[] = {
#define OP(id, name, slots, attrs, res, regions, traits, where, fusion, scalar, summary, constraints, \
           example)                                                                                   \
  {Opcode::id, name,           slots,          attrs,   res,         regions, traits,                 \
   where,      Fusion::fusion, Scalar::scalar, summary, constraints, example},
// clang-format off
#include "ir/ops.def"
#include "ir/kernel/ops.def"
#include "ir/rows_end.def"
    // clang-format on
};

}  // namespace
}  // namespace table

const OpInfo& info(Opcode code) { return table::kOps[static_cast<int>(code)]; }

bool admits(table::TypeClass wanted, DType dtype) {
  switch (wanted) {
  case table::TypeClass::any: return true;
  case table::TypeClass::num: return dtype != DType::i1;
  case table::TypeClass::flt: return isFloat(dtype);
  case table::TypeClass::integer:
    return info(dtype).family == DTypeFamily::sint || info(dtype).family == DTypeFamily::uint;
  case table::TypeClass::boolean: return dtype == DType::i1;
  }
  return false;
}

const OpInfo* findOp(std::string_view name) {
  static const std::unordered_map<std::string_view, const OpInfo*> byName = [] {
    std::unordered_map<std::string_view, const OpInfo*> out;
    for (const OpInfo& row : table::kOps) out.emplace(row.name, &row);
    return out;
  }();
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : it->second;
}

/// An op's name without its dialect.
static std::string_view plainName(std::string_view name) { return name.substr(name.find('.') + 1); }

std::string_view nearestOp(std::string_view name, bool kernel) {
  std::vector<std::string> known;
  for (const OpInfo& row : table::kOps)
    if (row.mayStand(table::inKernel) == kernel) known.emplace_back(plainName(row.name));
  const std::string best = nearestName(plainName(name), known);
  for (const OpInfo& row : table::kOps)
    if (row.mayStand(table::inKernel) == kernel && plainName(row.name) == best) return row.name;
  return {};
}

const table::AttrRow* OpInfo::attr(std::string_view name) const {
  for (const table::AttrRow& row : attrs)
    if (row.name == name) return &row;
  return nullptr;
}

std::string_view name(Stage stage) {
  constexpr std::string_view names[] = {"tensor", "fused", "planned", "kernel", "spirv"};
  return names[static_cast<int>(stage)];
}

}  // namespace tg
