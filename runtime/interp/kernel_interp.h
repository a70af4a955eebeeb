// SPDX-License-Identifier: Apache-2.0
// Runs kernels lane by lane on the host: the reference for what a device must compute, and the place
// where races, out-of-range accesses and reads of undefined memory show.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The bytes behind one buffer parameter, little-endian elements, dense. Buffers may overlap.
struct KernelBuffer {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  /// The extents, where the parameter's type leaves some open. Rank 0: as the type says, an open axis 0
  /// being as long as the bytes give.
  Shape shape = {};
};

/// How the invocations of a workgroup take turns between barriers. A kernel without races gives the
/// same result under all of them, float atomics apart.
enum class LaneOrder : uint8_t {
  roundRobin,  ///< each in turn, up to and including its next store
  wholeLane,   ///< each in turn, as far as it gets
  lockstep,    ///< all those that stand at the earliest instruction do that one
  shuffled,    ///< one drawn at random does a few instructions; the workgroups come in random order too
};

struct KernelRunOptions {
  LaneOrder order = LaneOrder::wholeLane;
  bool reversed = false;      ///< last invocation and last workgroup first
  bool checks = true;         ///< look for races, repeated writes and reads of undefined memory; costs 44
                              ///< bytes for each word written
  uint64_t seed = 0;          ///< of LaneOrder::shuffled; the same seed gives the same run
  uint32_t subgroupSize = 4;  ///< a power of two up to 128
  /// f64 in place of f32 and f16: registers, functions and memory, nothing is rounded, so that central
  /// differences are good to 1e-9. Literals are what the op holds; the parser makes them f32, a builder need
  /// not. Elements of float buffers are 8-byte doubles, integers keep 4
  /// bytes. A bitcast rounds to f32 first, and from bits gives the f32's value; exact_add and exact_store
  /// round what they add to f32.
  bool wide = false;
  /// The module the kernel is of, where the funcs it calls stand; a kernel without calls needs none.
  const Module* module = nullptr;
};

/// What went wrong while the kernel ran. It goes on until `kMostFindings` are listed, and ends there.
struct KernelCounters {
  static constexpr size_t kMostFindings = 16;

  int64_t outOfRange = 0;     ///< loads that gave 0, and stores and atomics that were dropped
  int64_t races = 0;          ///< accesses to an element that another invocation touches unordered
  int64_t rewrites = 0;       ///< stores to an `out` element that was written before
  int64_t uninitialised = 0;  ///< reads of shared, local or tape elements that nobody wrote, and shuffles
                              ///< from a lane that has not arrived
  std::vector<std::string> findings;  ///< the first of each, for a person
};

/// The first of some findings, and how many more stand behind it.
std::string firstOf(const std::vector<std::string>& findings);

/// Bytes of one lane of an element of a parameter as runKernel takes it: `wide` as in the options.
inline int64_t kernelElementBytes(DType dtype, bool wide) {
  return wide && isFloat(dtype) ? 8 : byteSize(dtype);
}

/// Runs a verified kernel over `grid` workgroups. Buffers stand in the order of the parameters and hold
/// at least the bytes their type says.
/// Every op gives the f32 nearest to its exact or f64 result, integers wrap; see codegen/glsl.h for what is
/// fixed where hardware differs. f16 elements are f32 in registers and rounded when stored. Shared and local
/// memory start as NaN patterns; tape and out buffers keep the bytes they come with, which the kernel may
/// not look at. Workgroups run one after the other; nothing orders them, so that any two that touch an
/// element of a buffer race unless both only read it or both only use atomics. A barrier orders the accesses
/// of its workgroup, to buffers too. tgk.accumulate is a load and a store, between which others may come.
///
/// Ops of a subgroup: an invocation waits until all others of its subgroup wait somewhere or are done. Then
/// those go on that stand at the earliest place, counting the turns of the loops around it: just those
/// that pass this place in this turn, whatever the schedule. A reduction goes from the lowest lane up. Where all of a
/// subgroup arrive, what they loaded before is ordered before what they store behind; nothing else is.
///
/// Errors: buffers that do not fit, open extents that nothing settles, a call without a module, a subgroup
/// size that cannot be, a step of 0, a barrier that only some invocations reach.
Result<KernelCounters> runKernel(const Item& kernel, std::span<KernelBuffer> buffers,
                                 std::array<int64_t, 3> grid, const KernelRunOptions& options = {});

}  // namespace tg
