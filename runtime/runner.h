// What runs the functions of one module and keeps its parameters between calls: a Vulkan device
// (executor.h) or the reference interpreter (interp_runner.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"

namespace tg {

/// Arrays with their names, in an order that means something.
using NamedArrays = std::vector<std::pair<std::string, HostArray>>;
using Inputs = std::map<std::string, HostArray>;

struct RunOutputs {
  NamedArrays results;   ///< in the function's order
  NamedArrays captures;  ///< those the module kept
  /// A result by name, or null.
  const HostArray* result(std::string_view name) const;
};

class Runner {
 public:
  virtual ~Runner() = default;

  /// Sets a param or state. Errors: no such name, another type.
  virtual Result<void> setStorage(const std::string& name, const HostArray& value) = 0;
  virtual Result<HostArray> storage(const std::string& name) = 0;

  /// Runs a function with all its arguments, host scalars included, by name. Errors: no such function,
  /// a missing or unknown input, another type; then nothing has run.
  virtual Result<RunOutputs> run(const std::string& function, const Inputs& inputs, bool captures) = 0;
  /// The parameter gradients of the function's last call, by parameter. None when the module did not
  /// keep them.
  virtual Result<NamedArrays> paramGrads(const std::string& function) = 0;
};

/// Refuses inputs that are not exactly `arguments` (name and type of each), naming what differs.
Result<void> checkInputs(std::string_view function,
                         const std::vector<std::pair<std::string, Type>>& arguments, const Inputs& inputs);

}  // namespace tg
