// SPDX-License-Identifier: Apache-2.0
// The captured values of one call.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "ir/type.h"
#include "runtime/runner.h"

namespace tg {

/// What `tg.capture` marked in the function that was called, and the arrays that the call read back. The
/// arrays are the object's own: later calls do not change them.
class Captures {
 public:
  Captures() = default;
  /// `registered` are all captures of `function`, `read` those the call asked for.
  Captures(std::string function, std::map<std::string, Type, std::less<>> registered, NamedArrays read);

  /// A copy of what the call read. The error lists what was read, or says how to ask.
  Result<HostArray> get(std::string_view name) const;
  /// Of any capture of the function, whether it was read or not.
  Result<Shape> shape(std::string_view name) const;
  /// Whether the call read it.
  bool has(std::string_view name) const { return read_.contains(name); }
  /// Those the call read, sorted.
  std::vector<std::string> names() const;
  /// One array for each head of a captured [heads, …] or [1, heads, …]: shape […].
  Result<std::vector<HostArray>> perHead(std::string_view name) const;

  /// What was read, sorted by name.
  const std::map<std::string, HostArray, std::less<>>& read() const { return read_; }

 private:
  Error unknown(std::string_view name) const;

  std::string function_;
  std::map<std::string, Type, std::less<>> registered_;
  std::map<std::string, HostArray, std::less<>> read_;
};

}  // namespace tg
