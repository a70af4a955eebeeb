// SPDX-License-Identifier: Apache-2.0
// Targets on the command line: names stay, files and `auto` become data before any pass runs.

#include "tools/driver/cli.h"
#include "tools/driver/io.h"

namespace tg {

/// JSON on one line: an option's text stands in pipelines and in the comment of a reproducer.
static std::string onOneLine(const std::string& json) {
  std::string out;
  bool indent = false;
  for (char c : json) {
    indent = c == '\n' || (indent && c == ' ');
    if (!indent) out += c;
  }
  return out;
}

static Result<std::string> targetData(const std::string& text, const OptHooks& hooks) {
  for (std::string_view name : targetNames())
    if (text == name) return text;
  if (text.starts_with('{')) return text;
  if (text == "auto") {
    if (!hooks.deviceTarget)
      return fail(
          "target 'auto' needs a device, which this tool does not ask for: use tg-opt, or a name or file");
    TG_TRY(Target target, hooks.deviceTarget());
    return onOneLine(targetToJson(target));
  }
  if (text.find('/') == std::string::npos && !text.ends_with(".json")) {
    TG_TRY(Target target, targetByName(text));
    return target.name;
  }
  TG_TRY(std::string json, readInput(text));
  TG_TRY(Target target, targetFromJson(json, text));
  return onOneLine(targetToJson(target));
}

Result<void> resolveTargets(Command& command, const OptHooks& hooks) {
  bool used = false;
  for (PipelineStep& step : command.pipeline.steps()) {
    if (!step.pass->option("target")) continue;
    const Attr* given = find(step.options, "target");
    std::string text = given ? given->text : command.target;
    used = true;
    if (text.empty()) continue;
    TG_TRY(std::string data, targetData(text, hooks));
    set(step.options, "target", Attr::string(std::move(data)));
  }
  if (!command.target.empty() && !used) return fail("--target is for fuse, which is not among the passes");
  return {};
}

}  // namespace tg
