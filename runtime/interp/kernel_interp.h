// Runs kernels lane by lane on the host: the reference for what a device must compute, and the place
// where races and out-of-range accesses show.
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
};

/// How the invocations of a workgroup take turns between barriers. A kernel without races gives the
/// same result under all of them, float atomics apart.
enum class LaneOrder : uint8_t {
  roundRobin,  ///< each in turn, up to and including its next store
  wholeLane,   ///< each in turn, as far as it gets
  lockstep,    ///< all those that stand at the earliest instruction do that one
};

struct KernelRunOptions {
  LaneOrder order = LaneOrder::wholeLane;
  bool reversed = false;  ///< last invocation and last workgroup first
  bool checks = true;     ///< look for races and repeated writes; costs 20 bytes for each word written
};

/// What went wrong while the kernel ran; it runs to its end all the same.
struct KernelCounters {
  int64_t outOfRange = 0;             ///< loads that gave 0 and stores that were dropped
  int64_t races = 0;                  ///< accesses to an element that another invocation touches unordered
  int64_t rewrites = 0;               ///< stores to an `out` element that was written before
  std::vector<std::string> findings;  ///< the first of each, for a person
};

/// Runs a verified kernel over `grid` workgroups. Buffers stand in the order of the parameters and hold
/// at least the bytes their type says; an open axis 0 takes what the bytes give.
/// Every op gives the f32 nearest to its exact or f64 result, integers wrap; see codegen/glsl.h for what is
/// fixed where hardware differs. Shared and local memory start as NaN patterns. Workgroups run one after
/// the other. Errors: buffers that do not fit, a step of 0, a barrier that only some invocations reach.
Result<KernelCounters> runKernel(const Item& kernel, std::span<KernelBuffer> buffers,
                                 std::array<int64_t, 3> grid, const KernelRunOptions& options = {});

}  // namespace tg
