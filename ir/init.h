// SPDX-License-Identifier: Apache-2.0
// How parameters and states are initialized: the kinds of `init` and their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/attr.h"
#include "ir/result.h"
#include "ir/type.h"

namespace tg {

/// A row of the table of kinds: `init = name(arguments)`.
struct InitKind {
  enum class Draw : uint8_t { fill, uniform, normal };
  std::string_view name;
  Draw draw;
  size_t minArgs, maxArgs;
};

/// The kind with this name, if it takes these arguments for a tensor of the type. The error says what is wrong; the
/// caller adds the name and location.
Result<const InitKind*> initKind(std::string_view name, const Type& type, std::span<const double> args);

/// The arguments of `init = kind(…)`, or the elements of dense<…>. An error if one is not a number, or is named.
Result<std::vector<double>> initNumbers(const Attr& init);

}  // namespace tg
