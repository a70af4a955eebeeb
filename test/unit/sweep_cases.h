// SPDX-License-Identifier: Apache-2.0
// The cases of the numeric sweep: for every op of the table shapes that reach its corners, views
// that feed it, and inputs from its domain.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/target.h"
#include "runtime/interp/nd_array.h"

namespace tg::test {

/// How a tensor argument is drawn.
enum class Draw : uint8_t {
  spread,  ///< f32 values uniform in [lo, hi]; integers uniform in [lo, hi]; i1 a coin
  coarse,  ///< whole numbers in [lo, hi] whatever the type, so that values are equal often
  holed,   ///< the same, with NaN for 0
};
struct SweepInput {
  Type type;
  double lo = -2, hi = 2;
  Draw draw = Draw::spread;
};

/// One function body over the inputs. `code` is the op under test, which `build` appends exactly once;
/// the other ops it appends are views, so that their error is zero.
struct SweepCase {
  Opcode code;
  std::string name;  ///< `matmul 65x33 · 33x8 ta`
  std::vector<SweepInput> inputs;
  std::function<std::vector<Value*>(Builder&, const std::vector<Value*>&)> build;
};

/// Whether the sweep must hold a case of the op: every op of a region except leaves and structure.
bool needsSweep(const OpInfo& row);
/// Rounding and trigonometry beyond the table's domain, powers of any sign, clamps and running sums.
std::vector<SweepCase> elementwiseCases();
/// Of these, rearrangements along axes, reads by index along one, and joins of many tensors.
std::vector<SweepCase> structureCases();
/// The cases of attention and its gradients, a part of all.
std::vector<SweepCase> attentionCases();
/// All cases, in the order of the table.
std::vector<SweepCase> sweepCases();
/// The part of them about windows, convolutions and pooling.
std::vector<SweepCase> windowCases();
/// Those of random ops, rms_norm, rope and cross_entropy's options; sweepCases has them too.
std::vector<SweepCase> randomSweepCases();
/// Products of f16 and of pairs of it, a part of all; and more of them, for devices with matrices of f16.
std::vector<SweepCase> precisionCases();
std::vector<SweepCase> coopmatCases();
/// One case of each kernel family, map, row, matmul and scatter, that takes at least `groups` workgroups of
/// `workgroup` invocations on the target.
std::vector<SweepCase> manyGroupCases(int64_t groups, int64_t workgroup, const Target& target);

/// Cases that the tests put into one module.
inline constexpr size_t kModuleCases = 64;
/// A module of stage tensor with one function @f over all arguments `c<case>_<input>`, whose results are
/// `c<case>_r<i>`.
std::unique_ptr<Module> moduleOf(const std::vector<SweepCase>& cases, size_t first, size_t count);
/// Values for the arguments of moduleOf; the seed is the case's number.
std::map<std::string, NdArray> inputsOf(const std::vector<SweepCase>& cases, size_t first, size_t count);

}  // namespace tg::test
