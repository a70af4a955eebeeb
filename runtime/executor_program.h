// SPDX-License-Identifier: Apache-2.0
// A spirv module's kernels and commands in the terms of runtime/vulkan. Internal to the executor.
#pragma once

#include <cstdint>
#include <map>

#include "runtime/commands.h"
#include "runtime/executor.h"

namespace tg {

/// What the commands of one module refer to.
struct Executor::Program {
  std::map<std::string, Segments, std::less<>> buffers;
  std::map<std::string, std::shared_ptr<vulkan::Pipeline>, std::less<>> pipelines;
  std::shared_ptr<LaneSet> laneSet;  ///< of all functions; null: each has its own
  /// The bytes of a param or state in a buffer of the text, up to `end`.
  struct Home {
    int64_t begin, end;
    std::string name;
  };
  std::map<std::string, std::vector<Home>, std::less<>> homes;  ///< by buffer, in address order

  /// The part of a buffer that holds these bytes of @name.
  Result<vulkan::Binding> range(const std::string& name, int64_t offset, int64_t bytes) const;
  std::vector<std::shared_ptr<vulkan::Buffer>> allBuffers() const;
  /// The commands of a function in text order, and the collective points among them. For a single rank (`ranks` is
  /// null) a collective is a barrier, or copies of its shards. An error if the module is sharded for another number of
  /// ranks.
  Result<std::vector<vulkan::Command>> commandsOf(const Item& func, const collective::Engine* ranks,
                                                  std::vector<CollectivePoint>& points) const;
  /// Fills in `homes`.
  void findHomes(const Module& module);

 private:
  static void copyShards(const CollectiveArgs& args, int rank, std::vector<vulkan::Command>& commands);
  std::string labelOf(const DispatchStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const DispatchStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const BarrierStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const FillStep& step) const;
  Result<vulkan::Command> command(const Loc& loc, const CopyStep& step) const;
  Result<vulkan::Binding> binding(const Loc& loc, const BufferRange& named) const;
  Result<CollectiveArgs> argsOf(const Loc& loc, const CollectiveStep& step) const;
};

}  // namespace tg
