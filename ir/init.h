// SPDX-License-Identifier: Apache-2.0
// Kinds of first values of parameters and states, and what each takes.
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

/// The kind of this name, if it takes these arguments for a tensor of the type. The error tells what does not suit, with
/// neither a name nor a place before it.
Result<const InitKind*> initKind(std::string_view name, const Type& type, std::span<const double> args);

/// The numbers of `init = kind(…)` or dense<…>. An error where one is no number, or has a name.
Result<std::vector<double>> initNumbers(const Attr& init);

}  // namespace tg
