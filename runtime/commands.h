// SPDX-License-Identifier: Apache-2.0
// The commands of a function of a spirv module (dispatches, fills, copies, collectives) in terms of names and byte
// ranges, without any device. The executor turns them into Vulkan commands; an exported bundle lists them.
#pragma once

#include <array>
#include <string>
#include <variant>
#include <vector>

#include "ir/byte_range.h"
#include "ir/module.h"
#include "ir/result.h"
#include "runtime/vulkan/pipeline.h"

namespace tg {

struct DispatchStep {
  std::string kernel;  ///< the name of a binary
  std::string label;   ///< what it computes, for messages; may be empty
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::vector<ByteRange> bindings;  ///< in the order of the kernel's parameters
};
struct BarrierStep {};
/// Fills a range with zeros.
struct FillStep {
  ByteRange range;
};
struct CopyStep {
  ByteRange source, target;  ///< equally long
};

/// Starts a collective after all earlier commands.
struct CollectiveStep {
  int64_t id = 0;
  std::string kind, reduction;  ///< `all_reduce`, `reduce_scatter`, `all_gather`; `mean`, `sum`, `same`
  std::vector<ByteRange> send, receive;  ///< all_reduce is in place and has only `send`
};
/// Waits for the collective with this id.
struct WaitStep {
  int64_t id = 0;
};

struct ProgramStep {
  Loc loc;
  std::variant<DispatchStep, BarrierStep, FillStep, CopyStep, CollectiveStep, WaitStep> what;
};

/// The commands of a function of a verified spirv module, in the order of the text.
std::vector<ProgramStep> programSteps(const Item& func);

/// How a binary accesses each of its bindings. This follows from the kernel's parameters (the kernel's hash must then
/// be the binary's), or from the binary's `modes` if the kernel has been stripped.
Result<std::vector<vulkan::BindingKind>> bindingsOf(const Module& module, const Item& binary);

}  // namespace tg
