// SPDX-License-Identifier: Apache-2.0
// Checks whether a compiled module fits a target: compares every limit with the module's need of it, kernel by kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/needs.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// Device memory in bytes; 0 means unknown, and is not checked.
struct DeviceMemory {
  int64_t heap = 0;        ///< the largest device-local heap
  int64_t allocation = 0;  ///< the largest single buffer
};

/// A limit, and the place in the module that needs most of it.
struct Need {
  std::string limit;  ///< a member of Target, a feature, or a kind of memory
  int64_t needed = 0, available = 0;
  std::string where;    ///< "kernel @k0_relu (relu)"; "" for a need of the whole module
  Loc loc;              ///< of that op in the source
  bool checked = true;  ///< false if the target's amount is not known
  bool atMost = true;   ///< false for a feature (1 is needed), or for the alignment of an offset
  bool fits() const;
};

struct FunctionFit {
  std::string function;
  int64_t dispatches = 0;
  std::vector<Need> needs;
  bool fits() const;
};

struct Fit {
  std::vector<FunctionFit> functions;
  std::vector<Need> memory;  ///< of the module: total, and largest buffer
  std::string compiledFor;   ///< why a runtime refuses the module anyway; empty if it accepts it
  bool fits() const;
};

/// Checks a module of stage spirv. `target` holds the limits and features of the device to run on. The features needed
/// are those that the binaries declare. Errors: another stage, a command without a binary. `device`, if given, holds
/// the limits of a real device, and replaces those that follow from the target.
Result<Fit> fitOf(const Module& module, const Target& target, const DeviceMemory& memory = {},
                  const std::optional<Limits>& device = {});

}  // namespace tg
