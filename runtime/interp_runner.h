// SPDX-License-Identifier: Apache-2.0
// Runs modules on the reference interpreter instead of a device. It computes in f64 and is slow.
#pragma once

#include <memory>

#include "ir/module.h"
#include "runtime/interp/interp.h"
#include "runtime/runner.h"

namespace tg {

NdArray toNdArray(const HostView& array);
/// The array with its elements rounded to its type.
HostArray toHostArray(const NdArray& array);

/// Runs a module of any stage.
class InterpRunner : public Runner {
 public:
  /// `module` must be verified. Params in `shared` use that memory instead of memory of their own; the module must then
  /// be of stage tensor or fused.
  static Result<std::unique_ptr<InterpRunner>> create(std::shared_ptr<const Module> module,
                                                      const InterpOptions& options = {},
                                                      const ParamBuffers& shared = {});

  Result<void> setStorages(const NamedArrays& values) override;
  Result<NamedArrays> storages(const std::vector<std::string>& names) override;
  Result<void> writeRows(const std::string& name, int64_t first, std::span<const std::byte> rows) override;
  Result<void> readRows(const std::string& name, int64_t first, std::span<std::byte> rows) override;
  Result<std::shared_ptr<StorageCopy>> copyStorages() override;
  Result<ParamBuffer> share(const std::string& name) override;
  Result<void> addFunction(std::shared_ptr<const Module> sibling, const std::string& function,
                           const std::string& key) override;
  void dropFunction(const std::string& key) override { functions_.erase(key); }
  /// The call is already done when this returns.
  Result<std::shared_ptr<PendingCall>> begin(const std::string& key, const InputViews& inputs,
                                             bool captures) override;
  Result<NamedArrays> paramGrads(const std::string& key) override;

 private:
  struct Program {
    std::shared_ptr<const Module> module;
    Interpreter interpreter;
  };
  struct Function {
    std::shared_ptr<Program> program;
    std::string name;
    NamedArrays grads;  ///< gradients of the last call
  };

  explicit InterpRunner(const InterpOptions& options) : options_(options) {}
  Result<Function*> find(const std::string& key);
  Result<Type> typeOf(const std::string& name) const;

  InterpOptions options_;
  std::shared_ptr<Program> base_;  ///< has the params and states
  std::map<std::string, Function> functions_;
};

}  // namespace tg
