// SPDX-License-Identifier: Apache-2.0
// Registers the passes and emitters of this library.
#include "codegen/glsl.h"
#include "passes/pass_options.h"

namespace tg {

#define TG_LINK_passes(id, name, Options)
#define TG_LINK_codegen(id, name, Options) linkPass(name, passFactory<Options>(name, run_##id));

/// Registers the functions of the passes in passes.def whose library is `codegen`, and the emitter `glsl`.
static bool registerCodegen() {
#define PASS(id, name, tool, from, to, library, Options, summary) TG_LINK_##library(id, name, Options)
#include "passes/passes.def"
  registerEmitter({"glsl", emitGlsl});
  return true;
}

}  // namespace tg

extern "C" {
/// Initialised before main in each program that links this library. The linker is asked for this symbol, because
/// nothing else needs this file, and it would be left out of a static archive.
bool tgCodegenRegistered = tg::registerCodegen();
}
