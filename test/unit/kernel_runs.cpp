// SPDX-License-Identifier: Apache-2.0
// Running a kernel on named arrays, in either arithmetic.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/kernel/rewrites.h"
#include "test/unit/kernel_grad_check.h"

namespace tg::test {
namespace {

/// A float as f16 bits; the values of tests are representable or NaN.
uint16_t halfBits(double value) {
  if (std::isnan(value)) return 0x7e00;
  _Float16 half = static_cast<_Float16>(value);
  return std::bit_cast<uint16_t>(half);
}

size_t elementBytes(const Type& type, bool wide) {
  if (isFloat(type.dtype)) return wide ? 8 : type.dtype == DType::f16 ? 2 : 4;
  return 4;
}

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}
template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

void encode(const Type& type, bool wide, double value, std::byte* to) {
  if (isFloat(type.dtype) && wide) return put(to, value);
  if (type.dtype == DType::f16) return put(to, halfBits(value));
  if (type.dtype == DType::f32) return put(to, static_cast<float>(value));
  put(to, static_cast<uint32_t>(static_cast<int64_t>(value)));
}

double decode(const Type& type, bool wide, const std::byte* from) {
  if (isFloat(type.dtype) && wide) return get<double>(from);
  if (type.dtype == DType::f16) return static_cast<double>(std::bit_cast<_Float16>(get<uint16_t>(from)));
  if (type.dtype == DType::f32) return static_cast<double>(get<float>(from));
  if (type.dtype == DType::i32) return get<int32_t>(from);
  return get<uint32_t>(from);
}

/// What stands in a buffer that nobody filled: zeros in accum, else something no result may depend on. An
/// `out` has a number, so that a NaN in it was computed.
double undefined(const Type& type) {
  if (type.mode == BufMode::accum) return 0;
  if (!isFloat(type.dtype)) return 987654321.0;
  return type.mode == BufMode::out ? 7.25e30 : std::numeric_limits<double>::quiet_NaN();
}

Result<std::vector<std::byte>> bytesOf(const Value& param, const KernelArray& array, bool wide) {
  const Type& type = param.type;
  bool fits = array.shape.rank() == type.rank();
  for (int axis = 0; fits && axis < type.rank(); ++axis)
    fits = type.shape[axis] == Shape::kDynamic || type.shape[axis] == array.shape[axis];
  size_t count = static_cast<size_t>(array.shape.elements() * type.lanes);
  if (!fits || (!array.values.empty() && array.values.size() != count))
    return fail("the array of %{}, {} with {} values, does not fit {}", param.name, array.shape.str(),
                array.values.size(), type.str());
  size_t size = elementBytes(type, wide);
  std::vector<std::byte> bytes(count * size);
  for (size_t i = 0; i < count; ++i)
    encode(type, wide, array.values.empty() ? undefined(type) : array.values[i], bytes.data() + i * size);
  return bytes;
}

}  // namespace

std::string str(const KernelSchedule& schedule) {
  static constexpr std::string_view kOrders[] = {"roundRobin", "wholeLane", "lockstep", "shuffled"};
  return fmt::format("{}{}{}", kOrders[static_cast<int>(schedule.order)],
                     schedule.reversed ? " reversed" : "", schedule.wide ? " f64" : " f32");
}

int64_t KernelOutcome::faults() const {
  return counters.outOfRange + counters.races + counters.rewrites + counters.uninitialised;
}

Result<KernelOutcome> runArrays(const Module& module, const Item& kernel, const KernelArrays& arrays,
                                const KernelSchedule& schedule) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<KernelBuffer> buffers;
  std::vector<Shape> shapes;
  for (const auto& param : kernel.body.args) {
    auto found = arrays.find(param->name);
    if (found == arrays.end()) return fail("there is no array for %{}", param->name);
    TG_TRY(std::vector<std::byte> bytes, bytesOf(*param, found->second, schedule.wide));
    memory.push_back(std::move(bytes));
    shapes.push_back(found->second.shape);
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    buffers.push_back({memory[i].data(), static_cast<int64_t>(memory[i].size())});
    buffers.back().shape = shapes[i];
  }
  KernelRunOptions options{schedule.order, schedule.reversed, schedule.checks};
  options.wide = schedule.wide;
  options.module = &module;
  TG_TRY(auto grid, evaluateGrid(kernel, shapes));
  KernelOutcome outcome;
  TG_TRY(outcome.counters, runKernel(kernel, buffers, grid, options));
  for (size_t i = 0; i < memory.size(); ++i) {
    const Value& param = *kernel.body.args[i];
    KernelArray& array = outcome.arrays[param.name];
    array.shape = shapes[i];
    size_t size = elementBytes(param.type, schedule.wide);
    for (size_t at = 0; at < memory[i].size(); at += size)
      array.values.push_back(decode(param.type, schedule.wide, memory[i].data() + at));
  }
  return outcome;
}

}  // namespace tg::test
