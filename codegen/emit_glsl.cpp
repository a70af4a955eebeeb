// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit_glsl.h"

#include <fmt/format.h>

#include "codegen/glsl.h"
#include "ir/kernel/legalize.h"

namespace tg {

Result<std::string> emitGlsl(const Module& module) {
  if (module.stage < Stage::kernel)
    return failAt(
        module.loc,
        fmt::format("GLSL needs a module of stage kernel or spirv, not {}; run spirv-emit{{emit=glsl}} first",
                    name(module.stage)));
  TG_TRY(Target target, targetOf(module.attrs));
  std::unique_ptr<Module> copy = clone(module);
  std::string text;
  Error errors;
  for (Item* kernel : copy->all(ItemKind::kernel)) {
    legalize(copy.get(), *kernel);
    Result<GlslText> glsl = printGlsl(*kernel, target);
    if (!glsl)
      errors.append(glsl.takeError());
    else
      text += fmt::format("// kernel @{}\n{}\n", kernel->name, glsl->text);
  }
  if (!errors.empty()) return errors;
  return text;
}

}  // namespace tg
