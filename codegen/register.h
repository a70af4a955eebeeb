// Makes the passes and emitters of this library known to the registry of passes.
#pragma once

namespace tg {

/// Links the rows of passes.def whose library is `codegen` (lower-kernels, spirv-emit) and the emitter
/// `glsl`. A program that runs them calls this once, before it parses a pipeline; calling again is
/// harmless. The other tools never name these functions, so they carry no shader compiler.
void registerCodegenPasses();

}  // namespace tg
