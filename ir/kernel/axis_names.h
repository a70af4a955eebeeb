// SPDX-License-Identifier: Apache-2.0
// Names of the open axes of a kernel's parameters: `%x: buf<NxKxf32, in>`. Axes of one name have one extent.
// The text keeps them in the type; here they are an attribute of the parameter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace tg {

constexpr std::string_view kAxisNames = "axes";

/// One name for each axis, "" for those without; empty when none has one or the attribute is malformed.
std::vector<std::string> axisNames(const Value& parameter);
/// Keeps nothing when no axis has a name.
void setAxisNames(Value& parameter, const std::vector<std::string>& names);
/// The type with its names, as it is written.
std::string namedType(const Value& parameter);

}  // namespace tg
