// Runs modules of stage spirv on a Vulkan device.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <unordered_map>

#include "ir/module.h"
#include "ir/target.h"
#include "runtime/runner.h"
#include "runtime/vulkan/recording.h"

namespace tg {

/// Refuses a module made for larger limits than the device has, naming the limit and both numbers.
Result<void> checkLimits(const Target& module, const Target& device, std::string_view deviceName);

struct FunctionCounts {
  int64_t dispatches = 0, fills = 0, copies = 0, barriers = 0;
  int64_t kernels() const { return dispatches + fills + copies; }
};

/// Each function is recorded once and replayed. Not for several threads at once.
class Executor : public Runner {
 public:
  /// Makes the buffers, pipelines and recordings of a verified module. Params and states are zero.
  /// Errors: another stage, a binary that is not of its kernel, a limit, memory, the driver's refusals.
  static Result<std::unique_ptr<Executor>> create(const Module& module,
                                                  std::shared_ptr<vulkan::Device> device);

  /// Takes a function of another module over the same params and states, which must have the same homes.
  /// It takes the place of one that has its name already.
  Result<void> addFunction(const Module& sibling, const std::string& function);

  Result<void> setStorage(const std::string& name, const HostArray& value) override;
  Result<HostArray> storage(const std::string& name) override;
  Result<RunOutputs> run(const std::string& function, const Inputs& inputs, bool captures) override;
  Result<NamedArrays> paramGrads(const std::string& function) override;

  /// Writes the inputs and queues the function's commands, without waiting for them.
  Result<void> submit(const std::string& function, const Inputs& inputs);
  /// Waits for everything queued and reads the function's results.
  Result<RunOutputs> read(const std::string& function, bool captures);

  Result<FunctionCounts> counts(const std::string& function) const;
  const std::shared_ptr<vulkan::Device>& device() const { return device_; }

 private:
  /// Bytes of a buffer that hold a value.
  struct Slot {
    std::string name;
    Type type;
    vulkan::Buffer* buffer = nullptr;
    int64_t offset = 0, pitch = 0;  ///< bytes; elements from one row to the next, 0 when dense
  };
  struct Function {
    std::vector<Slot> inputs, results, captures, grads;
    std::unique_ptr<vulkan::Recording> recording;
    FunctionCounts counts;
  };
  struct Program;

  Executor() = default;
  Result<void> addModule(const Module& module, const std::string& only);
  Result<void> makeBuffers(const Module& module, Program& program);
  Result<void> shareStorage(const Module& module, const Program& program);
  Result<void> makePipelines(const Module& module, Program& program, const std::set<std::string>& wanted);
  Result<Function> makeFunction(const Item& func, const Program& program);
  Result<const Function*> find(const std::string& function) const;
  Result<const Slot*> storageSlot(const std::string& name) const;
  Result<NamedArrays> readSlots(std::span<const Slot> slots);

  std::shared_ptr<vulkan::Device> device_;
  std::vector<std::unique_ptr<vulkan::Buffer>> buffers_;  ///< outlive the recordings that name them
  vulkan::Buffer* persistent_ = nullptr;
  vulkan::Buffer* arena_ = nullptr;
  std::unordered_map<std::string, Slot> storage_;
  std::map<std::string, Function> functions_;
};

}  // namespace tg
