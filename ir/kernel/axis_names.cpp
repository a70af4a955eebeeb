// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/axis_names.h"

#include <algorithm>
#include <utility>

namespace tg {

std::vector<std::string> axisNames(const Value& parameter) {
  const Attr* attr = find(parameter.attrs, kAxisNames);
  if (!attr || attr->kind != Attr::Kind::array || !parameter.type.isBuffer() ||
      static_cast<int>(attr->list.size()) != parameter.type.rank())
    return {};
  std::vector<std::string> names;
  for (const Attr& each : attr->list) names.push_back(each.text);
  return names;
}

void setAxisNames(Value& parameter, const std::vector<std::string>& names) {
  if (std::ranges::all_of(names, [](const std::string& name) { return name.empty(); })) return;
  std::vector<Attr> list;
  for (const std::string& name : names) list.push_back(Attr::string(name));
  set(parameter.attrs, kAxisNames, Attr::array(std::move(list)));
}

void addExtents(const Value& parameter, const Shape& bound, AxisExtents& extents) {
  const std::vector<std::string> names = axisNames(parameter);
  for (size_t axis = 0; axis < names.size(); ++axis)
    if (!names[axis].empty()) extents.emplace(names[axis], bound[static_cast<int>(axis)]);
}

std::optional<Shape> namedShape(const Value& parameter, const AxisExtents& extents) {
  Shape shape = parameter.type.shape;
  const std::vector<std::string> names = axisNames(parameter);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != Shape::kDynamic) continue;
    const auto known = names.empty() ? extents.end() : extents.find(names[static_cast<size_t>(axis)]);
    if (known == extents.end()) return {};
    shape[axis] = known->second;
  }
  return shape;
}

std::string namedType(const Value& parameter) {
  const std::vector<std::string> names = axisNames(parameter);
  if (names.empty()) return parameter.type.str();
  // The names replace the question marks in order.
  std::string text = parameter.type.str(), out;
  size_t from = 0;
  for (int axis = 0; axis < parameter.type.rank(); ++axis) {
    if (parameter.type.shape[axis] != Shape::kDynamic) continue;
    size_t at = text.find('?', from);
    const std::string& name = names[static_cast<size_t>(axis)];
    out += text.substr(from, at - from) + (name.empty() ? "?" : name);
    from = at + 1;
  }
  return out + text.substr(from);
}

}  // namespace tg
