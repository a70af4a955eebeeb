// SPDX-License-Identifier: Apache-2.0
// Targets on the command line: names are kept, but files and `auto` are replaced by data before any pass runs.

#include "tools/driver/cli.h"
#include "tools/driver/io.h"

namespace tg {

bool isTargetFile(std::string_view text) {
  return !text.starts_with('{') && (text.find('/') != std::string_view::npos || text.ends_with(".json"));
}

Result<Target> readTarget(const std::string& text) {
  if (text == "auto")
    return usageError("target 'auto' is not for this tool: give a name or file, or leave the target out");
  if (!isTargetFile(text))
    return withCode(exitUsage, text.starts_with('{') ? targetFromJson(text, "target") : targetByName(text));
  TG_TRY(const std::string json, readInput(text));
  return targetFromJson(json, text);
}

Result<void> checkPipeline(const std::string& text) {
  TG_TRY(const PassManager passes, PassManager::parse(text));
  for (const PipelineStep& step : passes.steps()) {
    const Attr* target = step.pass->option("target") ? find(step.options, "target") : nullptr;
    if (!target || target->text.empty() || isTargetFile(target->text)) continue;
    if (auto known = readTarget(target->text); !known)
      return fail("{}: {}", step.pass->name, known.error().message());
  }
  return {};
}

Result<void> resolveTargets(Command& command, const OptHooks& hooks) {
  bool used = false;
  for (PipelineStep& step : command.pipeline.steps()) {
    if (!step.pass->option("target")) continue;
    const Attr* given = find(step.options, "target");
    std::string text = given ? given->text : command.target;
    used = true;
    if (text.empty()) continue;
    const bool ofDevice = text == "auto" && hooks.deviceTarget;
    TG_TRY(const Target target, ofDevice ? withCode(exitDevice, hooks.deviceTarget()) : readTarget(text));
    if (text == "auto" || isTargetFile(text)) text = targetOption(target);
    set(step.options, "target", Attr::string(std::move(text)));
  }
  if (!command.target.empty() && !used)
    return usageError("--target is for fuse, which is not among the passes");
  return {};
}

}  // namespace tg
