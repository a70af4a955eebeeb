// SPDX-License-Identifier: Apache-2.0
// Differentiates a kernel. Its VJP is a kernel too: it verifies, prints, runs and can be differentiated again.
//
// The VJP first runs the kernel forward, to keep values that memory holds on the way, then backward. Operands of a backward
// step are computed again where they are needed. Values read from memory, and the carried values of loops, are kept in
// `tape` buffers, or in `local` ones if there are few trips. A shared or local buffer that a block fills and then reads is
// filled again instead (kernel_facts.h). Buffers that are read and written have an adjoint buffer, whose elements are
// read and cleared where the kernel overwrites them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

struct KernelVjpRequest {
  std::vector<std::string> wrt;  ///< in and inout parameters; empty: all that hold floats
  std::vector<std::string> of;   ///< out, inout and accum parameters; empty: all that hold floats
  std::string name;              ///< the name of the new kernel; empty: that of the kernel and ".vjp"
  /// Loops with more trips than this keep their carried values only once in so many trips, and compute those between again;
  /// 0 keeps them all.
  int64_t checkpoint = 0;
};

struct KernelVjpParam {
  enum class Role : uint8_t {
    primal,     ///< a buffer of the kernel as it was before it ran (out and accum: only its extents are read)
    cotangent,  ///< in: the cotangent of an out or accum result
    gradient,   ///< accum: the gradient of an `in` parameter; starts at zero
    adjoint,  ///< of an inout or tape: its cotangent (or zeros) goes in, the gradient of its initial value comes
    ///< out
    tape  ///< scratch
  };
  Role role = Role::primal;
  std::string of;  ///< the kernel's parameter; empty for scratch that only the VJP has
};

struct KernelVjp {
  std::unique_ptr<Item> kernel;
  std::vector<KernelVjpParam> params;  ///< one for each parameter of `kernel`
  /// For tapeShape: the kernel as it was differentiated and, for each parameter, the loops whose trips its first axes count
  /// (outermost first). Launch axes follow, of invocations or of workgroups, then the extents of the value.
  std::shared_ptr<const Item> source;
  struct TapeAxes {
    std::vector<const Op*> loops;
    std::vector<int> launch;
    bool ofGroups = false;
  };
  std::vector<TapeAxes> axes;
  std::vector<Diagnostic> remarks;  ///< on ops through which values flow but gradients do not
};

/// The VJP of a verified kernel. Fails with one error for each op on a path from `wrt` to `of` that has no derivative, which
/// tells its place, why, and what to do; and if a name of the request is no such parameter, with a list of those there are.
Result<KernelVjp> differentiateKernel(const Module& module, const Item& kernel,
                                      const KernelVjpRequest& request);

/// The shape of a tape parameter of the VJP, for these shapes of the kernel's parameters (in elements of the buffers, all
/// static). The error names a loop whose trips these shapes do not bound.
Result<Shape> tapeShape(const KernelVjp& vjp, int param, const Item& primal,
                        const std::vector<Shape>& shapes);

/// A row of the documentation: why an op on an active path is refused, and how to fix it.
struct KernelVjpRefusal {
  std::string_view label, why, fix;
};
const std::vector<KernelVjpRefusal>& kernelVjpRefusals();

}  // namespace tg
