#include "codegen/register.h"

#include "codegen/emit_glsl.h"
#include "passes/pass_options.h"

namespace tg {

#define TG_LINK_passes(id, name, Options)
#define TG_LINK_codegen(id, name, Options) linkPass(name, passFactory<Options>(name, run_##id));

void registerCodegenPasses() {
#define PASS(id, name, tool, from, to, library, Options, summary) TG_LINK_##library(id, name, Options)
#include "passes/passes.def"
#undef PASS
  registerEmitter({"glsl", emitGlsl});
}

}  // namespace tg
