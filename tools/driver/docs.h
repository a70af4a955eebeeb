// SPDX-License-Identifier: Apache-2.0
// Generates pages of the documentation. All their content comes from tables, so a test can compare them with these.
#pragma once

#include <string>

namespace tg {

/// docs/ops.md: every op of both dialects with operands, attributes, constraints, gradient and example.
std::string opsPage();
/// docs/passes.md: every pass with its stages, tool and options.
std::string passesPage();
/// docs/schedules.md: every kind of schedule with its fields.
std::string schedulesPage();
/// docs/traits.md: every trait of targets, with its values in the shipped targets.
std::string traitsPage();
/// docs/from-typescript.md: the equivalent of each op kind and export of tensorgrad for TypeScript.
std::string mappingPage();
/// docs/from-kernel-ir.md: the equivalent of each construct of another kernel IR.
std::string kernelMappingPage();

}  // namespace tg
