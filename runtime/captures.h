// SPDX-License-Identifier: Apache-2.0
// The values of `tg.capture` that one call read back.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "ir/type.h"
#include "runtime/runner.h"

namespace tg {

/// The captures of the called function, and the arrays that the call read back. The arrays are copies: later calls do
/// not change them.
class Captures {
 public:
  Captures() = default;
  /// `registered`: all captures of `function`. `read`: those that the call asked for.
  Captures(std::string function, std::map<std::string, Type, std::less<>> registered, NamedArrays read);

  /// A copy of a captured array. The error lists the captures that were read, or says how to ask for them.
  Result<HostArray> get(std::string_view name) const;
  /// The shape of any capture of the function, whether the call read it or not.
  Result<Shape> shape(std::string_view name) const;
  /// Whether the call read this capture.
  bool has(std::string_view name) const { return read_.contains(name); }
  /// The names of the captures that were read, sorted.
  std::vector<std::string> names() const;
  /// Splits a capture of shape [heads, …] or [1, heads, …] into one array of shape […] for each head.
  Result<std::vector<HostArray>> perHead(std::string_view name) const;

  /// The captures that were read, sorted by name.
  const std::map<std::string, HostArray, std::less<>>& read() const { return read_; }

 private:
  Error unknown(std::string_view name) const;

  std::string function_;
  std::map<std::string, Type, std::less<>> registered_;
  std::map<std::string, HostArray, std::less<>> read_;
};

}  // namespace tg
