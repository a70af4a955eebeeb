#include "codegen/emit_glsl.h"

#include <fmt/format.h>

#include "codegen/glsl.h"

namespace tg {

Result<std::string> emitGlsl(const Module& module) {
  if (module.stage < Stage::kernel)
    return failAt(
        module.loc,
        fmt::format("GLSL is written of stage kernel or spirv, the module is stage({}); lower it with "
                    "spirv-emit{{emit=glsl}}",
                    name(module.stage)));
  std::string text;
  Error errors;
  for (const Item* kernel : module.all(ItemKind::kernel)) {
    Result<GlslText> glsl = printGlsl(*kernel);
    if (!glsl)
      errors.append(glsl.takeError());
    else
      text += fmt::format("// kernel @{}\n{}\n", kernel->name, glsl->text);
  }
  if (!errors.empty()) return errors;
  return text;
}

}  // namespace tg
