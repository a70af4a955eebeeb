// SPDX-License-Identifier: Apache-2.0
#include "runtime/batch.h"

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/dims.h"
#include "ir/text.h"

namespace tg {

namespace {

/// Whether two shapes agree in rank and in every axis other than `except`.
bool agree(const Shape& a, const Shape& b, int except) {
  if (a.rank() != b.rank()) return false;
  for (int axis = 0; axis < a.rank(); ++axis)
    if (axis != except && a[axis] != b[axis]) return false;
  return true;
}

/// The batch size that one input implies, or 0 if it cannot be a value of this argument. Gives a flat input its shape.
Result<int64_t> impliedSize(const Item& func, const Value& argument, int axis, HostView& input) {
  if (input.dtype != argument.type.dtype) return int64_t{0};
  if (agree(input.shape, argument.type.shape, axis)) return input.shape[axis];
  if (input.shape.rank() != 1) return int64_t{0};
  int64_t rest = argument.type.elements() / argument.type.shape[axis];
  if (input.elements() % rest)
    return fail(
        "@{}: input '{}' has {}, which is not a multiple of {}, the elements of {} for a batch of one",
        func.name, argument.name, countText(input.elements(), "element"), rest, argument.type.str());
  int64_t size = input.elements() / rest;
  input.shape = argument.type.shape;
  input.shape[axis] = size;
  return size;
}

}  // namespace

Result<void> checkNames(const Item& func, const InputViews& inputs) {
  std::vector<std::pair<std::string, Type>> arguments;
  std::set<std::string> filledIn;
  for (const auto& arg : func.body.args) {
    arguments.emplace_back(arg->name, arg->type);
    if (find(arg->attrs, "host")) filledIn.insert(arg->name);
  }
  return checkNames(func.name, arguments, inputs, filledIn);
}

Result<std::optional<int64_t>> batchOf(const Item& func, InputViews& inputs) {
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
      return fail("@{}: input '{}' implies a batch of {}, input '{}' one of {}", func.name, decided->name,
                  *size, argument->name, implied);
    size = implied;
    decided = argument.get();
  }
  if (foreign) return std::optional<int64_t>{};
  return size;
}

Type withBatchOf(const Value& argument, const Shape& given) {
  const int axis = batchAxis(argument);
  Type type = argument.type;
  if (axis < 0) return type;
  const int64_t rest = type.elements() / type.shape[axis];
  if (agree(given, type.shape, axis))
    type.shape[axis] = given[axis];
  else if (given.rank() == 1 && given[0] % rest == 0 && given[0] > 0)
    type.shape[axis] = given[0] / rest;
  return type;
}

Result<InputViews> partOf(const Item& func, const InputViews& inputs, int64_t part, int64_t parts,
                          Inputs& copies) {
  TG_CHECK(checkNames(func, inputs));
  if (parts == 1) return inputs;
  InputViews out;
  for (const auto& [name, whole] : inputs) {
    const Value* argument = func.arg(name);
    const int axis = argument ? batchAxis(*argument) : -1;
    if (axis < 0 || axis >= whole.shape.rank()) {
      out.emplace(name, whole);
      continue;
    }
    if (whole.shape[axis] % parts)
      return fail("@{}: input '{}' has a batch of {}, which has no {} equal parts", func.name, name,
                  whole.shape[axis], parts);
    TG_CHECK(checkBytes(func.name, name, whole));
    Shape shape = whole.shape;
    shape[axis] /= parts;
    const size_t bytes = whole.bytes.size() / static_cast<size_t>(parts);
    size_t run = static_cast<size_t>(byteSize(whole.dtype));  // contiguous bytes of one part
    for (int inner = axis; inner < shape.rank(); ++inner) run *= static_cast<size_t>(shape[inner]);
    const size_t first = run * static_cast<size_t>(part);
    if (run == bytes) {
      out.emplace(name, HostView(whole.dtype, shape, whole.bytes.subspan(first, bytes)));
      continue;
    }
    HostArray rows = HostArray::zeros(whole.dtype, shape);
    for (size_t at = 0; at < bytes; at += run)
      std::memcpy(&rows.bytes[at], &whole.bytes[at * static_cast<size_t>(parts) + first], run);
    out.emplace(name, copies.insert_or_assign(name, std::move(rows)).first->second);
  }
  return out;
}

bool hasBatch(const Item& func, int64_t size) {
  for (const auto& argument : func.body.args)
    if (int axis = batchAxis(*argument); axis >= 0 && argument->type.shape[axis] != size) return false;
  return true;
}

}  // namespace tg
