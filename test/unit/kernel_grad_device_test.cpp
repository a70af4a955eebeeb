// SPDX-License-Identifier: Apache-2.0
// Generated VJPs on a device, called from a tensor module like any custom kernel: the gradients are those
// that the interpreter finds in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/parser.h"
#include "ir/verify.h"
#include "runtime/compile.h"
#include "test/unit/kernel_grad_catalogue.h"
#include "test/unit/random_kernels.h"
#include "test/unit/sweep_runs.h"

namespace tg::test {
namespace {

/// The tensor that a buffer with these extents is bound to.
Type tensorOf(const Type& buffer, const Shape& extents) {
  Shape shape = extents;
  if (buffer.lanes > 1) shape[shape.rank() - 1] *= buffer.lanes;
  return Type::tensor(buffer.dtype == DType::u32 ? DType::i32 : buffer.dtype, shape);
}

/// A module whose @f calls a kernel: what goes in, and the names of what comes out.
struct CustomCall {
  std::string text;
  Arrays inputs;
};

CustomCall customCall(const std::string& items, const Item& kernel, const KernelArrays& arrays) {
  CustomCall call;
  std::string params, operands, named, types, returned, returnedTypes, results;
  auto list = [](std::string& to, const std::string& item) { to += (to.empty() ? "" : ", ") + item; };
  for (const auto& arg : kernel.body.args) {
    const KernelArray& array = arrays.at(arg->name);
    Type type = tensorOf(arg->type, array.shape);
    BufMode mode = arg->type.mode;
    if (mode == BufMode::in || mode == BufMode::inout) {
      list(params, fmt::format("%{}: {}", arg->name, type.str()));
      list(operands, "%" + arg->name);
      NdArray value = NdArray::zeros(type);
      if (!array.values.empty()) value.data.assign(array.values.begin(), array.values.end());
      call.inputs.emplace(arg->name, value);
    }
    if (mode == BufMode::in) continue;
    list(named, "%r_" + arg->name);
    list(types, type.str());
    if (mode == BufMode::tape) continue;
    list(returned, "%r_" + arg->name);
    list(returnedTypes, type.str());
    list(results, fmt::format("{}: {}", arg->name, type.str()));
  }
  call.text = fmt::format(
      "module @m {{\n{}\nfunc @f({}) -> ({}) {{\n{} = tg.custom @{}({}) : {}\nreturn {} : {}\n}}\n}}\n",
      items, params, results, named, kernel.name, operands, types, returned, returnedTypes);
  return call;
}

bool onDevice(const KernelArrays& arrays) {
  for (const auto& [name, array] : arrays)
    if (array.shape.elements() == 0) return false;  // a tensor has elements
  return true;
}

/// Whether a kernel stores f16, which tensors on a device do not.
bool storesHalf(const Item& kernel) {
  return std::any_of(kernel.body.args.begin(), kernel.body.args.end(),
                     [](const auto& arg) { return arg->type.dtype == DType::f16; });
}

/// Runs a case's VJP on the device and compares; false after a failure.
bool sameOnDevice(Gpu& gpu, const KernelGradCase& test) {
  KernelGradReport report = checkKernelGradient(test);
  if (report.fault != GradFault::none) {
    ADD_FAILURE() << report.what << "\n" << test.text;
    return false;
  }
  KernelGradCase backward = secondDerivative(test);
  if (!onDevice(backward.arrays)) return true;
  auto items = parse("module @m stage(kernel) {\n" + backward.text + "\n}\n", "kernel.tgir");
  if (!items) return false;
  const Item& kernel = *(*items)->find(ItemKind::kernel, backward.kernel);
  if (storesHalf(kernel)) return true;
  CustomCall call = customCall(backward.text, kernel, backward.arrays);
  auto module = parse(call.text, "custom.tgir");
  if (!module) {
    ADD_FAILURE() << module.error().str();
    return false;
  }
  if (auto checked = verify(**module); !checked) {
    ADD_FAILURE() << checked.error().str();
    return false;
  }
  Stages stages = stagesOf(**module, gpu.device()->info().target);
  if (!stages.spirv) return false;
  std::vector<Results> run = gpu.run(*stages.spirv, {"f"}, {call.inputs});
  if (run.empty()) return false;
  bool fine = true;
  for (const auto& [name, array] : report.gradients) {
    auto got = run[0].find("d_" + name);
    if (got == run[0].end()) continue;  // no path from it to a result
    double bound = 1;
    for (double value : array.values) bound = std::max(bound, std::abs(value));
    bound *= 4 * test.f32Tolerance;
    for (size_t i = 0; fine && i < array.values.size(); ++i) {
      fine = std::abs(got->second.data[i] - array.values[i]) <= bound;
      EXPECT_TRUE(fine) << "d_" << name << "[" << i << "] is " << got->second.data[i] << ", not "
                        << array.values[i] << "\n"
                        << test.text << "\n"
                        << report.vjp;
    }
  }
  return fine;
}

TEST(KernelGradDevice, TheCatalogue) {
  Gpu gpu;
  for (const NamedKernelGrad& named : kernelGradCatalogue()) {
    SCOPED_TRACE(named.name);
    if (named.test.vjp.empty()) sameOnDevice(gpu, named.test);
  }
}

TEST(KernelGradDevice, RandomKernels) {
  Gpu gpu;
  int failures = 0;
  for (uint64_t seed = 1; seed <= 40 && failures < 3; ++seed) {
    SCOPED_TRACE(seed);
    KernelGradCase test = randomKernel(seed);
    if (test.text.find("subgroup") != std::string::npos) continue;  // their size is the device's
    failures += !sameOnDevice(gpu, test);
  }
}

}  // namespace
}  // namespace tg::test
