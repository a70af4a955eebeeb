// SPDX-License-Identifier: Apache-2.0
// Names of the open axes of a kernel's parameters: `%x: buf<NxKxf32, in>`. Axes of one name have one extent. In the
// text the names are part of the type; in memory they are an attribute of the parameter.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace tg {

constexpr std::string_view kAxisNames = "axes";

/// One name for each axis, "" for an axis without one; empty when no axis has a name or the attribute is malformed.
std::vector<std::string> axisNames(const Value& parameter);
/// Sets the names; does nothing when no axis has one.
void setAxisNames(Value& parameter, const std::vector<std::string>& names);
/// The extents of axes by their names.
using AxisExtents = std::unordered_map<std::string, int64_t>;
/// Adds the named axes of a parameter that is bound to this shape. A name keeps its first extent.
void addExtents(const Value& parameter, const Shape& bound, AxisExtents& extents);
/// A parameter's shape, in which open axes have the extents of their names; nothing if one has none.
std::optional<Shape> namedShape(const Value& parameter, const AxisExtents& extents);
/// The type as it is written, with its names.
std::string namedType(const Value& parameter);

}  // namespace tg
