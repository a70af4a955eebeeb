// SPDX-License-Identifier: Apache-2.0
// Gradients of kernels against central differences: one kernel, its values, and everything that must hold of
// the VJP that differentiateKernel makes of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "passes/kernel/vjp.h"
#include "runtime/interp/kernel_interp.h"

namespace tg::test {

/// The extents of a buffer in elements, and its values, lanes of vectors innermost. Integers are held as
/// doubles. Empty values: undefined, or zeros for `accum`.
struct KernelArray {
  Shape shape;
  std::vector<double> values;
};
/// Arrays by parameter name.
using KernelArrays = std::map<std::string, KernelArray>;

/// The real arithmetic of a run and the turns its invocations take.
struct KernelSchedule {
  LaneOrder order = LaneOrder::wholeLane;
  bool reversed = false;
  bool wide = true;
  bool checks = true;  ///< look for faults
};
std::string str(const KernelSchedule& schedule);

/// What a run left behind.
struct KernelOutcome {
  KernelArrays arrays;
  KernelCounters counters;
  /// Out-of-range accesses, races, repeated writes, reads of undefined elements.
  int64_t faults() const;
};

/// Runs `kernel` on `arrays`, one for each parameter. What has no values starts as NaN (in `out` and of
/// integers as a large number), as 0 in `accum`. Errors: those of runKernel, an array that is missing or
/// does not fit.
Result<KernelOutcome> runArrays(const Module& module, const Item& kernel, const KernelArrays& arrays,
                                const KernelSchedule& schedule);

/// A kernel, the values it is differentiated at, and what is known of the answer.
struct KernelGradCase {
  std::string text;          ///< items of a module: the kernel and the funcs it calls
  std::string kernel = "k";  ///< the kernel's name
  KernelArrays arrays;       ///< one for each parameter; values for `in` and `inout` alone
  std::vector<std::string> wrt, of;
  KernelArrays cotangents;  ///< of results; those missing are drawn
  KernelArrays expected;    ///< gradients by primal name, where a formula gives them
  int64_t checkpoint = 0;
  uint64_t seed = 1;
  int samples = -1;         ///< elements of each buffer compared with differences; -1: all
  bool differences = true;  ///< false where differences say something else: stop_gradient, masked poles
  /// Against differences, relative to the buffer's largest gradient + 1. Literals of a VJP are f32, even
  /// where it runs in f64.
  double tolerance = 1e-6;
  double f32Tolerance = 1e-5;  ///< f32 against f64, relative to the buffer's largest gradient + 1
  std::string vjp;             ///< a hand-written VJP's name: judged in place of the generated one
};

enum class GradFault : uint8_t {
  none,
  forward,
  refused,
  verify,
  text,
  run,
  faults,
  schedule,
  values,
  f32,
  expected
};
/// The name of a fault.
std::string_view name(GradFault fault);

struct KernelGradReport {
  GradFault fault = GradFault::none;  ///< the first that was found
  std::string what;                   ///< what was expected and what came, for a person
  std::string vjp;                    ///< the VJP's text, once there is one
  int compared = 0;                   ///< elements compared with differences
  int kinks = 0;           ///< elements left out: a corner, a jump, or no digits in the differences
  KernelArrays gradients;  ///< by primal name, in f64
};

/// Everything: the forward kernel has no faults under any schedule; the VJP exists, verifies, is a fixpoint
/// of printing and parsing, has no faults, gives the same gradients under every schedule, those that
/// differences and `expected` say, and nearly the same ones in f32.
KernelGradReport checkKernelGradient(const KernelGradCase& test);

/// The VJP of a case as a case of its own, differentiated with respect to its float `in` parameters: the
/// second derivative. Null module text (empty) when there is no VJP.
KernelGradCase secondDerivative(const KernelGradCase& test);

/// Reports the case's faults as failures of the running test; true when there are none.
bool expectKernelGradient(const KernelGradCase& test);

}  // namespace tg::test
