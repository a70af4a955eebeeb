// The reference interpreter as a runner: f64 inside, exact where a device is not, and slow.
#pragma once

#include <memory>

#include "ir/module.h"
#include "runtime/interp/interp.h"
#include "runtime/runner.h"

namespace tg {

NdArray toNdArray(const HostArray& array);
/// Elements rounded to the array's type.
HostArray toHostArray(const NdArray& array);

/// Runs a module of any stage.
class InterpRunner : public Runner {
 public:
  /// `module` is verified.
  static Result<std::unique_ptr<InterpRunner>> create(std::shared_ptr<const Module> module,
                                                      const InterpOptions& options = {});

  Result<void> setStorage(const std::string& name, const HostArray& value) override;
  Result<HostArray> storage(const std::string& name) override;
  Result<RunOutputs> run(const std::string& function, const Inputs& inputs, bool captures) override;
  Result<NamedArrays> paramGrads(const std::string& function) override;

 private:
  InterpRunner(std::shared_ptr<const Module> module, Interpreter interpreter)
      : module_(std::move(module)), interpreter_(std::move(interpreter)) {}

  std::shared_ptr<const Module> module_;
  Interpreter interpreter_;
  std::map<std::string, NamedArrays> grads_;  ///< of each function's last call
};

}  // namespace tg
