// SPDX-License-Identifier: Apache-2.0
// Whether a finished module fits a target: every limit with what the module needs of it, kernel by kernel.
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

/// Device memory in bytes; 0 is unknown and not checked.
struct DeviceMemory {
  int64_t heap = 0;        ///< the largest device-local heap
  int64_t allocation = 0;  ///< the largest single buffer
};

/// One limit and the place that needs most of it.
struct Need {
  std::string limit;  ///< a member of Target, a feature, or what memory it is
  int64_t needed = 0, available = 0;
  std::string where;    ///< "kernel @k0_relu (relu)"; "" for what the whole module needs
  Loc loc;              ///< of that op in the source
  bool checked = true;  ///< false: what there is of it is not known
  bool atMost = true;   ///< false: a feature, of which 1 is needed, or an offset's multiple
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
  std::vector<Need> memory;  ///< of the module: total and largest buffer
  std::string compiledFor;   ///< why a runtime refuses the module all the same; empty when it takes it
  bool fits() const;
};

/// Judges a module of stage spirv. `target` holds the limits and features of the device it is to run on;
/// features are those that the binaries' words declare. Errors: another stage, a command without binary.
/// `device` are the limits of a device that is there, in place of those that its target tells.
Result<Fit> fitOf(const Module& module, const Target& target, const DeviceMemory& memory = {},
                  const std::optional<Limits>& device = {});

}  // namespace tg
