// SPDX-License-Identifier: Apache-2.0
// Runs kernels lane by lane on the host. It is the reference for what a device must compute, and finds races,
// out-of-range accesses and reads of undefined memory.
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

/// The bytes behind one buffer parameter: dense, little-endian elements. Buffers may overlap.
struct KernelBuffer {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  /// The extents, if the parameter's type leaves some open. With rank 0 the type's extents apply, and an open axis 0 is
  /// as long as the bytes allow.
  Shape shape = {};
};

/// How the invocations of a workgroup alternate between barriers. A kernel without races gives the same result in all
/// orders, except for float atomics.
enum class LaneOrder : uint8_t {
  roundRobin,  ///< each in turn, up to and including its next store
  wholeLane,   ///< each in turn, as far as it can run
  lockstep,    ///< all those at the earliest instruction execute it
  shuffled,    ///< a random one executes a few instructions; workgroups run in random order too
};

struct KernelRunOptions {
  LaneOrder order = LaneOrder::wholeLane;
  bool reversed = false;      ///< last invocation and last workgroup first
  bool checks = true;         ///< look for races, repeated writes and reads of undefined memory; costs 44
                              ///< bytes for each word written
  uint64_t seed = 0;          ///< for LaneOrder::shuffled; equal seeds give equal runs
  uint32_t subgroupSize = 4;  ///< a power of two up to 128
  /// Use f64 instead of f32 and f16 in registers, functions and memory: nothing is rounded, so that central differences
  /// are accurate to 1e-9. Literals have the value that the op holds; the parser rounds them to f32, a builder need
  /// not. Elements of float buffers are 8-byte doubles; integers keep 4 bytes. A bitcast first rounds to f32, and a
  /// bitcast from bits gives the f32's value. exact_add and exact_store round what they add to f32.
  bool wide = false;
  /// The module of the kernel, with the funcs that it calls; not needed for a kernel without calls.
  const Module* module = nullptr;
  /// With `checks`: the parameters, by number, of which each element must be written if they are `out`.
  std::vector<bool> complete = {};
};

/// The errors of a kernel's run. The run goes on until `kMostFindings` are listed.
struct KernelCounters {
  static constexpr size_t kMostFindings = 16;

  int64_t outOfRange = 0;  ///< loads that gave 0; stores and atomics that were dropped
  int64_t races = 0;       ///< accesses to an element that another invocation accesses without an order
  int64_t rewrites = 0;    ///< stores to an `out` element that was written before
  /// Reads of shared, local or tape elements that nobody wrote, shuffles from a lane that has not arrived, and `out`
  /// buffers with elements that nobody wrote.
  int64_t uninitialised = 0;
  std::vector<std::string> findings;  ///< the first of each, as text
};

/// The first finding, and the number of further ones.
std::string firstOf(const std::vector<std::string>& findings);

/// Bytes of one lane of a parameter's element, in the layout that runKernel takes; `wide` as in the options.
inline int64_t kernelElementBytes(DType dtype, bool wide) {
  return wide && isFloat(dtype) ? 8 : byteSize(dtype);
}

/// Runs a verified kernel over `grid` workgroups. `buffers` has one for each parameter, in order, with at least as many
/// bytes as its type says.
///
/// Arithmetic: every op gives the f32 nearest to its exact or f64 result, and integers wrap; codegen/glsl.h says what
/// is fixed where hardware differs. f16 elements are f32 in registers and are rounded when they are stored.
///
/// Memory: shared and local memory start as NaN patterns. Tape and out buffers keep the bytes they come with, which the
/// kernel must not read. Workgroups run one after the other but are not ordered: two that access the same element of a
/// buffer race, unless both only read it or both only use atomics. A barrier orders the accesses of its workgroup, also
/// those to buffers. tgk.accumulate is a load and a store, and other accesses may come between them.
///
/// Ops of a subgroup: an invocation waits until all others of its subgroup wait too, or are done. Then the op at the
/// earliest position (which includes the iterations of the loops around it) runs with the invocations that wait there.
/// These are exactly the invocations that reach this position in this iteration, whatever the schedule. A reduction
/// goes from the lowest lane up. If all of a subgroup arrive, what they loaded before is ordered before what they store
/// after it; nothing else is ordered.
///
/// Errors: buffers that do not fit, open extents that nothing determines, a call without a module, an invalid subgroup
/// size, a loop step of 0, a barrier that only some invocations reach.
Result<KernelCounters> runKernel(const Item& kernel, std::span<KernelBuffer> buffers,
                                 std::array<int64_t, 3> grid, const KernelRunOptions& options = {});

}  // namespace tg
