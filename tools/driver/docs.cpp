// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/listings.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/trace/ops.h"
#include "passes/grad_rules/grad_rules.h"
#include "passes/kernel/vjp.h"
#include "passes/pass.h"

namespace tg {

namespace {

/// A code span; escapes bars, so that it can be a cell of a table.
std::string code(std::string_view text) { return "`" + cell(text) + "`"; }

std::string_view typeClass(table::TypeClass type, bool kernel) {
  switch (type) {
  case table::TypeClass::any: return "any type";
  case table::TypeClass::num: return kernel ? "f32, i32 or u32" : "f32, f16, bf16, i32 or u32";
  case table::TypeClass::flt: return kernel ? "f32" : "f32, f16 or bf16";
  case table::TypeClass::integer: return "i32 or u32";
  case table::TypeClass::boolean: return kernel ? "bool" : "i1";
  }
  return "";
}

std::string slotKind(const table::Slot& slot, bool kernel) {
  using enum table::SlotKind;
  const std::string_view type = typeClass(slot.type, kernel);
  switch (slot.kind) {
  case value: return fmt::format("value, {}", type);
  case optional: return fmt::format("value, {}; optional", type);
  case values: return fmt::format("any number of values, {}", type);
  case symbol: return "symbol, `@name`";
  case callee: return "callee, `@name(…)`";
  case element: return "element, `%buffer[%i, …]`";
  case literal: return "literal";
  case bindings: return "bindings, `(%a = %x, %g = [%y, %z])`";
  case binding: return "binding, `%i = 0`";
  case keyword: return fmt::format("`{}(…)`", slot.name);
  case args: return "`args(in(@buffer[offset:bytes]), …)`";
  case none: break;
  }
  return "";
}

std::string_view attrKind(table::AttrKind kind) {
  using enum table::AttrKind;
  switch (kind) {
  case integer: return "integer";
  case real: return "number";
  case boolean: return "true or false";
  case string: return "string";
  case word: return "word";
  case symbol: return "symbol";
  case ints: return "list of integers";
  case any: return "any value";
  case none: break;
  }
  return "";
}

/// The allowed values of a numeric field of a schedule.
std::string valuesOf(const ScheduleField& field) {
  if (field.limit.empty()) return "a list of schedules";
  if (field.count == 0) return "a list of numbers, " + field.limit;
  if (field.count > 1 && field.limit.front() == 't') return fmt::format("{} of {}", field.count, field.limit);
  return field.count == 1 ? field.limit : fmt::format("{} numbers, {}", field.count, field.limit);
}

/// The field that distinguishes a row from others of its kind.
std::string_view distinctField(const ScheduleRow& row) {
  for (const ScheduleField& field : row.fields) {
    bool elsewhere = false;
    for (const ScheduleRow& other : scheduleRows())
      for (const ScheduleField& each : other.fields)
        elsewhere = elsewhere || (&other != &row && other.kind == row.kind && each.name == field.name);
    if (!elsewhere) return field.name;
  }
  return row.kind;
}

/// The names of the rows for which `holds` is true.
template <class Row, size_t kCount, class Holds>
std::string wordsOf(const std::pair<Row, const char*> (&rows)[kCount], Holds holds) {
  std::vector<std::string_view> words;
  for (const auto& [row, word] : rows)
    if (holds(row)) words.push_back(word);
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string placesOf(const OpInfo& op) {
  constexpr std::pair<table::Where, const char*> kPlaces[] = {
      {table::inTensor, "tensor functions"},
      {table::inFused, "fused functions"},
      {table::inPlanned, "planned functions"},
      {table::inDispatch, "kernel and spirv functions"},
      {table::inRegion, "regions"},
      {table::inKernel, "kernels"}};
  return wordsOf(kPlaces, [&](table::Where place) { return op.mayStand(place); });
}

std::string traitsOf(const OpInfo& op) {
  constexpr std::pair<table::Trait, const char*> kTraits[] = {
      {table::pure, "pure"},         {table::commutative, "commutative"}, {table::composite, "composite"},
      {table::view, "view"},         {table::terminator, "terminator"},   {table::effect, "effect"},
      {table::leaf, "leaf"},         {table::elements, "elements"},       {table::alongAxes, "alongAxes"},
      {table::alongRow, "alongRow"}, {table::alongMatrix, "alongMatrix"}, {table::alongImage, "alongImage"}};
  const std::string out = wordsOf(kTraits, [&](table::Trait trait) { return op.has(trait); });
  return out.empty() ? "none" : out;
}

/// Formats `c1: …; c2: ….` as a list, with the labels that diagnostics use: `matmul.c1`, `k_load.c1`.
std::string constraintsOf(const OpInfo& op) {
  std::string_view rest = op.constraints;
  std::string label(op.name.substr(op.name.find('.') == std::string_view::npos ? 0 : op.name.find('.') + 1));
  if (op.mayStand(table::inKernel)) label = "k_" + label;
  std::string out;
  while (!rest.empty()) {
    // The next entry begins at "; cN: ".
    size_t end = 0;
    do {
      end = rest.find("; c", end + 1);
    } while (end != std::string_view::npos && rest.find(':', end) > end + 6);
    std::string_view entry = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
    size_t colon = entry.find(": ");
    if (entry.ends_with('.')) entry.remove_suffix(1);
    out += fmt::format("- `{}.{}` {}\n", label, entry.substr(0, colon), entry.substr(colon + 2));
  }
  return out;
}

std::string gradientOf(const OpInfo& op) {
  const GradEntry& entry = gradEntry(op.code);
  switch (entry.kind) {
  case GradKind::rule:
  case GradKind::byScalar: return fmt::format("Gradient: `{}`.", entry.text);
  case GradKind::decomposes: return fmt::format("Gradient: {}.", entry.text);
  case GradKind::notDifferentiable: return fmt::format("No gradient: {}.", entry.text);
  case GradKind::notInStage: return fmt::format("Not differentiated: {}.", entry.text);
  }
  return "";
}

/// A module that verifies, with the example of a row as its function body. The function has the arguments that examples
/// may use, and returns nothing.
std::string exampleModule(const OpInfo& op) {
  std::string body, line;
  for (char c : std::string(op.example) + "\n") {
    line += c;
    if (c != '\n') continue;
    body += "    " + line;
    line.clear();
  }
  std::string items;
  bool storage = op.example.find('@') != std::string_view::npos;
  if (storage) items = "  param @p : tensor<4x3xf32> {init = zeros}\n  state @q : tensor<f32>\n";
  std::string read;
  if (op.example.find("%p0") != std::string_view::npos) read = "    %p0 = tg.param @p : tensor<4x3xf32>\n";
  constexpr std::pair<const char*, const char*> kArgs[] = {
      {"x", "2x4xf32"}, {"y", "2x4xf32"}, {"w", "4x3xf32"}, {"b", "4xf32"},
      {"i", "2xi32"},   {"c", "2x4xi1"},  {"s", "f32"},     {"t", "8x4xf32"}};
  std::string args;
  for (auto [name, type] : kArgs) {
    std::string use = fmt::format("%{}", name);
    bool used = false;
    for (size_t at = op.example.find(use); at != std::string_view::npos; at = op.example.find(use, at + 1)) {
      char next = at + use.size() < op.example.size() ? op.example[at + use.size()] : ' ';
      used = used || !(std::isalnum(static_cast<unsigned char>(next)) || next == '_');
    }
    if (used) args += fmt::format("{}%{}: tensor<{}>", args.empty() ? "" : ", ", name, type);
  }
  return fmt::format("module @example {{\n{}  func @f({}) {{\n{}{}    return\n  }}\n}}\n", items, args, read,
                     body);
}

/// The C++ call for the op in a model; "" if there is none.
std::string_view spellingOf(const OpInfo& op) {
  for (const nn::Spelling& row : nn::spellings())
    if (row.op == op.code) return row.call;
  return "";
}

std::string opSection(const OpInfo& op) {
  std::string out = fmt::format("### {}\n\n{}\n\n", op.name, op.summary);
  if (op.slots.size() > 0) {
    out += "| operand | form |\n|---|---|\n";
    for (const table::Slot& slot : op.slots)
      out +=
          fmt::format("| {} | {} |\n", code(slot.name), cell(slotKind(slot, op.mayStand(table::inKernel))));
    out += "\n";
  }
  if (op.attrs.size() > 0) {
    out += "| attribute | kind | default |\n|---|---|---|\n";
    for (const table::AttrRow& row : op.attrs) {
      std::string kind = row.choices.empty() ? std::string(attrKind(row.kind)) : code(row.choices);
      out += fmt::format("| {} | {} | {} |\n", code(row.name), kind,
                         row.fallback.empty() ? "required" : code(row.fallback));
    }
    out += "\n";
  }
  out += fmt::format("Allowed in: {}. Traits: {}. Fusion: {}.\n", placesOf(op), traitsOf(op),
                     op.fusion == table::Fusion::none ? "none" : fusionName(op.fusion));
  if (op.mayStand(table::inTensor)) out += gradientOf(op) + "\n";
  if (std::string_view call = spellingOf(op); !call.empty()) out += fmt::format("In C++: `{}`.\n", call);
  if (std::string constraints = constraintsOf(op); !constraints.empty()) out += "\n" + constraints;
  if (!op.example.empty()) out += fmt::format("\n```mlir\n{}```\n", exampleModule(op));
  return out + "\n";
}

}  // namespace

std::string opsPage() {
  std::string out =
      "# Ops\n\nGenerated by `gen-docs` from `ir/ops.def`, `ir/kernel/ops.def`, `passes/grad_rules/` and "
      "`ir/trace/ops.def`; edit those.\nIn gradients `g` is the gradient of the result, `r` the result, and "
      "`overSquares(n, x, y)` n/(x² + y²).\nElsewhere x and y are the operands lhs and rhs. A negative axis "
      "counts "
      "from the end. See also [numbers](language.md#numbers): rounding, NaN, infinities.\n";
  std::string dialect;
  for (int index = 0; index < kOpcodeCount; ++index) {
    const OpInfo& op = info(static_cast<Opcode>(index));
    std::string own = op.name.starts_with("tgk.") ? "Kernel ops" : "Tensor ops";
    if (own != dialect) out += fmt::format("\n## {}\n\n", own);
    dialect = own;
    out += opSection(op);
  }
  out.pop_back();
  return out;
}

std::string mappingPage() {
  struct Row {
    std::string_view group, name, here, expression;
  };
  static constexpr Row rows[] = {
#define KIND(name, here, expression, element) {"Op kinds", #name, here, #expression},
#define CALL(name, here, expression, element) {"Functions of tensors", #name, here, #expression},
#define EXPORT(name, here, ...) {"Other exports", #name, here, ""},
#define TYPE(name, here, ...) {"Types and their fields", #name, here, ""},
#define NONE(name, why) {"Without an equivalent", #name, why, ""},
#include "docs/mapping.def"
  };
  std::string out =
      "# Coming from tensorgrad for TypeScript\n\nGenerated by `gen-docs` from `docs/mapping.def`; edit "
      "that. `test/unit/mapping_test.cpp` runs every row.\n\nThe op kinds, exported functions, types, fields "
      "and methods of tensorgrad 0.0.1 to 0.0.13 for WebGPU, and their equivalents. A function\nof tensors "
      "that is named like an op kind in camelCase (`meanLast`) has the same name in `tg::nn`.\n";
  std::string_view group;
  for (const Row& row : rows) {
    if (row.group != group) {
      bool code = row.group == "Op kinds" || row.group == "Functions of tensors";
      out += fmt::format("\n## {}\n\n| there | here |{}\n|---|---|{}\n", row.group, code ? " in C++ |" : "",
                         code ? "---|" : "");
    }
    group = row.group;
    std::string name(row.name);
    if (size_t at = name.find('_'); at != std::string::npos && row.group != "Op kinds") name[at] = '.';
    out += fmt::format("| `{}` | {} |{}\n", name, cell(row.here),
                       row.expression.empty() ? "" : " " + code(row.expression) + " |");
  }
  return out;
}

/// A table of what the gradient of a kernel does not support.
static std::string refusalTable() {
  std::string out = "\n| error | reason | what to do |\n|---|---|---|\n";
  for (const KernelVjpRefusal& row : kernelVjpRefusals())
    out += fmt::format("| `kernel-vjp.{}` | {} | {} |\n", row.label, cell(row.why), cell(row.fix));
  return out;
}

std::string kernelMappingPage() {
  struct Row {
    std::string_view group, there, here, text;
  };
  static constexpr Row rows[] = {
#define SAME(group, there, here, text) {group, there, here, text},
#define TYPE(group, there, here, text) {group, there, here, text},
#define NONE(group, there, why) {group, there, why, ""},
#include "docs/kernel_mapping.def"
  };
  std::string out =
      "# Coming from vyre's kernel IR\n\nGenerated by `gen-docs` from `docs/kernel_mapping.def`; edit that. "
      "`test/unit/kernel_mapping_test.cpp` reads and\nverifies every example.\n\nThe expressions, operators, "
      "statements, types and access modes of vyre-foundation 0.4, and their equivalents in the\n[kernel "
      "language](kernel-language.md).\n";
  std::string_view group;
  for (const Row& row : rows) {
    if (row.group != group)
      out += fmt::format("\n## {}\n\n| there | here | for example |\n|---|---|---|\n", row.group);
    group = row.group;
    out += fmt::format("| {} | {} | {} |\n", cell(row.there), cell(row.here),
                       row.text.empty() ? "" : code(row.text));
  }
  return out;
}

std::string schedulesPage() {
  std::string out =
      "# Schedules\n\nGenerated by `gen-docs` from `ir/schedules.def`; edit that.\n\nA schedule says how a "
      "`tg.fused` becomes one kernel: `schedule = map{vec = 4, workgroup = 64}`. `fuse` chooses it for the "
      "target and writes it into the text, where it may be edited before `plan`. A tuning file holds "
      "schedules measured to be faster. A field that is left out has its default; a field without one is "
      "required.\n\nThe verifier checks kind, fields and values, in modules and tuning files (errors "
      "labelled `fused.schedule`). `lower-kernels` checks that they suit the region, such as a tile that "
      "must divide its product, and the target's limits.\n";
  std::string_view last;
  for (const ScheduleRow& row : scheduleRows()) {
    out += row.kind == last ? "\n" : fmt::format("\n## `{}`\n\n", row.kind);
    if (row.kind == last) out += fmt::format("With `{}`: ", distinctField(row));
    last = row.kind;
    out += fmt::format("{}.{}\n", cell(row.meaning), row.isPart ? " May be a part of `parts`." : "");
    if (row.fields.empty()) continue;
    out += "\n| field | values | default | meaning |\n|---|---|---|---|\n";
    for (const ScheduleField& field : row.fields)
      out += fmt::format("| `{}` | {} | {} | {} |\n", field.name, valuesOf(field),
                         field.fallback.empty() ? "" : code(field.fallback), cell(field.meaning));
  }
  return out;
}

std::string traitsPage() {
  std::string out = "# Traits of targets\n\nGenerated by `gen-docs` from `ir/traits.def`; edit that. "
                    "[Targets](targets.md) describes what they are used for.\n\nA member that a target's "
                    "file leaves out has the value of `vulkan-min`.\n\n| member |";
  std::string rule = "|---|";
  for (std::string_view target : targetNames()) out += fmt::format(" `{}` |", target), rule += "---|";
  out += " meaning |\n" + rule + "---|\n";
  for (const TraitRow& row : traitRows()) {
    out += fmt::format("| `{}` |", row.name);
    for (const std::string& value : row.values) out += fmt::format(" {} |", cell(value));
    out += fmt::format(" {} |\n", cell(row.meaning));
  }
  return out;
}

std::string passesPage() {
  std::string out = "# Passes\n\nGenerated by `gen-docs` from `passes/passes.def` and `passes/options.h`; "
                    "edit those.\nEach pass can be run by a flag of `tg-opt` with its name, and by its name "
                    "in `--pass-pipeline`.\n";
  for (const PassInfo& pass : passes()) {
    out += fmt::format("\n## {}\n\n{}\n\nStage {} to {}.", pass.name, pass.summary, name(pass.from),
                       name(pass.to));
    if (!pass.tool.empty()) out += fmt::format(" Tool: `{}`.", pass.tool);
    if (!pass.parts.empty())
      out += fmt::format(" It runs these passes: `{}`. An option goes to each pass that has it.",
                         partsOf(pass, "`, `"));
    out += "\n";
    if (pass.name == "kernel-vjp") out += refusalTable();
    if (pass.options.empty()) continue;
    out += "\n| option | type | default | meaning |\n|---|---|---|---|\n";
    for (const OptionInfo& option : pass.options)
      out += fmt::format("| `{}` | {} | `{}` | {} |\n", option.name, option.type, option.fallback,
                         cell(option.help));
  }
  return out;
}

}  // namespace tg
