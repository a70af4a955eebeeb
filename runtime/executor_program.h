// SPDX-License-Identifier: Apache-2.0
// Translates the kernels and commands of a spirv module into those of runtime/vulkan. Internal to the executor.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/commands.h"
#include "runtime/executor.h"

namespace tg {

/// The pipelines, buffers and homes that the commands of one module refer to.
struct Executor::Program {
  std::map<std::string, Segments, std::less<>> buffers;
  std::map<std::string, std::shared_ptr<vulkan::Pipeline>, std::less<>> pipelines;
  std::shared_ptr<LaneSet> laneSet;  ///< shared by all functions; if null, each function has its own
  /// The bytes of a buffer, up to `end`, that hold one param or state.
  struct Home {
    int64_t begin, end;
    std::string name;
  };
  std::map<std::string, std::vector<Home>, std::less<>> homes;  ///< by buffer name, in address order

  /// The Vulkan buffer and range that hold these bytes of @name.
  Result<vulkan::Binding> range(const std::string& name, int64_t offset, int64_t bytes) const;
  std::vector<std::shared_ptr<vulkan::Buffer>> allBuffers() const;
  /// The commands of a function in the order of the text, and the collective points among them. For a single rank
  /// (`ranks` is null) a collective is only a barrier, or copies of its shards. An error if the module is sharded for
  /// another number of ranks.
  Result<std::vector<vulkan::Command>> commandsOf(const Item& func, const collective::Engine* ranks,
                                                  std::vector<CollectivePoint>& points) const;
  /// Fills in `homes` from the module's params and states.
  void findHomes(const Module& module);

 private:
  static void copyShards(const CollectiveArgs& args, int rank, std::vector<vulkan::Command>& commands);
  std::string labelOf(const DispatchStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const DispatchStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const BarrierStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const FillStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const CopyStep& step) const;
  Result<vulkan::Binding> binding(const Loc& loc, const ByteRange& named) const;
  Result<CollectiveArgs> argsOf(const Loc& loc, const CollectiveStep& step) const;
};

}  // namespace tg
