// SPDX-License-Identifier: Apache-2.0
// Makes the passes and emitters of this library known to the registry of passes.
#include "codegen/emit_glsl.h"
#include "passes/pass_options.h"

namespace tg {

#define TG_LINK_passes(id, name, Options)
#define TG_LINK_codegen(id, name, Options) linkPass(name, passFactory<Options>(name, run_##id));

/// Gives the rows of passes.def whose library is `codegen` their functions, and adds the emitter `glsl`.
static bool registerCodegen() {
#define PASS(id, name, tool, from, to, library, Options, summary) TG_LINK_##library(id, name, Options)
#include "passes/passes.def"
#undef PASS
  registerEmitter({"glsl", emitGlsl});
  return true;
}

}  // namespace tg

extern "C" {
/// Set before main of each program that links this library, which asks the linker for it: nothing else needs
/// this file, so that it would be left out of a static archive.
bool tgCodegenRegistered = tg::registerCodegen();
}
