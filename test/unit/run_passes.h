// SPDX-License-Identifier: Apache-2.0
// A pipeline as text over a module, of whatever stages its passes take and give.
#pragma once

#include <memory>
#include <string>

#include "runtime/compile.h"

namespace tg {

inline Result<Compiled> runPasses(std::unique_ptr<Module> module, const std::string& pipeline) {
  CompileOptions passes;
  passes.pipeline = pipeline;
  passes.until = Stage::tensor;
  return compile(std::move(module), {}, passes);
}

}  // namespace tg
