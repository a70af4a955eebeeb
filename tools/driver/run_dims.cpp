// SPDX-License-Identifier: Apache-2.0
// Implements --set-dim: changes the extents of axes that a module names.

#include <fmt/format.h>

#include "tools/driver/run_setup.h"

#include "ir/text.h"

namespace tg {

/// Splits a text such as `time=256`.
static Result<std::pair<std::string, int64_t>> namedExtent(const std::string& text) {
  const size_t equals = std::min(text.find('='), text.size());
  const auto extent = numberIn<int64_t>(std::string_view(text).substr(std::min(equals + 1, text.size())));
  const std::string name = text.substr(0, equals);
  const bool plain =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
      std::string::npos;
  if (name.empty() || !plain || !extent || *extent < 1)
    return fail("expected a name of axes and their extent, such as time=256, not '{}'", text);
  return std::pair(name, *extent);
}

CLI::Option* addSetDimFlag(CLI::App& app, std::vector<std::string>& into) {
  return addValue(app, "--set-dim", "NAME=N", into,
                  "set the extent of the axes of this name, such as time=256; may be repeated")
      ->check([](const std::string& text) {
        auto given = namedExtent(text);
        return given ? std::string() : given.error().message();
      });
}

Result<void> setDims(const ModelFlags& flags, std::unique_ptr<Module>& module) {
  if (flags.dims.empty()) return {};
  if (module->stage > Stage::tensor)
    return fail("--set-dim needs a module of stage tensor, and {} is of stage {}", flags.file,
                name(module->stage));
  std::string passes;
  for (const std::string& text : flags.dims) {
    TG_TRY(const auto given, withCode(exitUsage, namedExtent(text)));
    passes += fmt::format("{}set-dim{{name={} n={}}}", passes.empty() ? "" : ",", given.first, given.second);
  }
  return runFirst(passes, module, {});
}

}  // namespace tg
