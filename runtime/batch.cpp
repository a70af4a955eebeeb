// SPDX-License-Identifier: Apache-2.0
#include "runtime/batch.h"

#include <fmt/format.h>

namespace tg {

namespace {

/// The argument's batch axis, counted from 0, or -1.
int batchAxis(const Value& argument) {
  const Attr* axis = find(argument.attrs, "batch");
  if (!axis) return -1;
  auto given = static_cast<int>(axis->integer);
  return given < 0 ? given + argument.type.rank() : given;
}

/// Whether the shapes are equal but for one axis.
bool agree(const Shape& a, const Shape& b, int except) {
  if (a.rank() != b.rank()) return false;
  for (int axis = 0; axis < a.rank(); ++axis)
    if (axis != except && a[axis] != b[axis]) return false;
  return true;
}

/// The size one input implies, 0 when it cannot be this argument's. A flat input is given its shape.
Result<int64_t> impliedSize(const Item& func, const Value& argument, int axis, HostArray& input) {
  if (input.dtype != argument.type.dtype) return int64_t{0};
  if (agree(input.shape, argument.type.shape, axis)) return input.shape[axis];
  if (input.shape.rank() != 1) return int64_t{0};
  int64_t rest = argument.type.elements() / argument.type.shape[axis];
  if (input.elements() % rest)
    return fail(fmt::format("@{}: input '{}' has {} elements, which is no multiple of {}, the elements of "
                            "{} for a batch of one",
                            func.name, argument.name, input.elements(), rest, argument.type.str()));
  int64_t size = input.elements() / rest;
  input.shape = argument.type.shape;
  input.shape[axis] = size;
  return size;
}

}  // namespace

Result<std::optional<int64_t>> batchOf(const Item& func, Inputs& inputs) {
  std::optional<int64_t> size;
  const Value* decided = nullptr;
  bool foreign = false;
  for (const auto& argument : func.body.args) {
    int axis = batchAxis(*argument);
    auto given = inputs.find(argument->name);
    if (axis < 0) continue;
    if (given == inputs.end()) {
      foreign = true;
      continue;
    }
    TG_TRY(int64_t implied, impliedSize(func, *argument, axis, given->second));
    if (implied == 0) {
      foreign = true;
      continue;
    }
    if (size && *size != implied)
      return fail(fmt::format("@{}: input '{}' implies a batch of {}, input '{}' one of {}", func.name,
                              decided->name, *size, argument->name, implied));
    size = implied;
    decided = argument.get();
  }
  if (foreign) return std::optional<int64_t>{};
  return size;
}

bool hasBatch(const Item& func, int64_t size) {
  for (const auto& argument : func.body.args)
    if (int axis = batchAxis(*argument); axis >= 0 && argument->type.shape[axis] != size) return false;
  return true;
}

}  // namespace tg
