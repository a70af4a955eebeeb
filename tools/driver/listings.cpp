// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/listings.h"

#include <array>

#include <fmt/format.h>

#include "ir/text.h"
#include "passes/grad_rules/grad_rules.h"

#ifndef TG_VERSION
#define TG_VERSION "0.1.0"
#endif

namespace tg {

std::string_view fusionName(table::Fusion fusion) {
  constexpr std::array<std::string_view, 11> kNames = {
      "-", "map", "view", "reduce", "row", "contraction", "scatter", "leaf", "window", "attention", "custom"};
  return kNames[static_cast<size_t>(fusion)];
}

std::string passList() {
  std::string out;
  for (const PassInfo& pass : passes()) {
    std::string stages = fmt::format("{} to {}", name(pass.from), name(pass.to));
    out += fmt::format("{:<15} {:<18} {:<14} {}{}\n", pass.name, stages, pass.tool.empty() ? "-" : pass.tool,
                       pass.summary, pass.isLinked() ? "" : " (not part of this tool)");
  }
  return out;
}

std::string partsOf(const PassInfo& alias, std::string_view between) {
  return listText(alias.parts, &PassInfo::name, between);
}

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string passHelp(const PassInfo& pass) {
  std::string out =
      fmt::format("{}: {}\nstages: {} to {}\n", pass.name, pass.summary, name(pass.from), name(pass.to));
  if (!pass.tool.empty()) out += fmt::format("tool: {}\n", pass.tool);
  if (!pass.parts.empty()) out += fmt::format("runs: {}\n", partsOf(pass, ","));
  if (pass.options.empty()) return out + "options: none\n";
  out += "options:\n";
  for (const OptionInfo& option : pass.options)
    out += fmt::format("  {:<26} {} (default: {})\n", fmt::format("{}={}", option.name, option.type),
                       option.help, option.fallback);
  return out;
}

std::string opList() {
  std::string out;
  std::array<int, 5> counts{};
  for (int code = 0; code < kOpcodeCount; ++code) {
    const OpInfo& op = info(static_cast<Opcode>(code));
    GradKind kind = gradEntry(op.code).kind;
    ++counts[static_cast<size_t>(kind)];
    out += fmt::format("{:<24} {:<12} {:<19} {}\n", op.name, fusionName(op.fusion), name(kind), op.summary);
  }
  out += fmt::format("{} ops; gradients:", kOpcodeCount);
  for (size_t kind = 0; kind < counts.size(); ++kind)
    out += fmt::format("{} {} {}", kind == 0 ? "" : ",", counts[kind], name(static_cast<GradKind>(kind)));
  return out + "\n";
}

std::string versionNumber() { return TG_VERSION; }

std::string versionText() {
#ifdef NDEBUG
  constexpr const char* build = "release";
#else
  constexpr const char* build = "debug";
#endif
  return fmt::format("tensorgrad {} ({} build)\n", TG_VERSION, build);
}

}  // namespace tg
