// SPDX-License-Identifier: Apache-2.0
// The generated pages: everything in them comes from a table, so a test can compare them with one.
#pragma once

#include <string>

namespace tg {

/// docs/ops.md: every op of both dialects with operands, attributes, constraints, gradient, example.
std::string opsPage();
/// docs/passes.md: every pass with stages, tool and options.
std::string passesPage();
/// docs/schedules.md: every kind of schedule with its fields.
std::string schedulesPage();
/// docs/traits.md: every trait of targets with its values of those that ship.
std::string traitsPage();
/// docs/from-typescript.md: what stands for each op kind and export of the library for TypeScript.
std::string mappingPage();
/// docs/from-kernel-ir.md: what stands for each construct of another kernel IR.
std::string kernelMappingPage();

}  // namespace tg
