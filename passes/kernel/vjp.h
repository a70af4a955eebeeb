// SPDX-License-Identifier: Apache-2.0
// Differentiates a kernel: its VJP is a kernel too, which verifies, prints, runs and can be differentiated
// again.
//
// The VJP runs the kernel once forward for what its memory holds on the way, then backward. Operands of a
// backward step are computed again where they are needed; what memory held, and the carried values of loops,
// are kept in `tape` buffers, or in `local` ones where the trips are few; a shared or local buffer that a
// block fills and then reads is filled again instead (refill.h). Buffers that are read and written have an
// adjoint buffer beside them, whose elements are taken and cleared where the kernel overwrites them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

struct KernelVjpRequest {
  std::vector<std::string> wrt;  ///< in and inout parameters; empty: all of f32 and f16
  std::vector<std::string> of;   ///< out, inout and accum parameters; empty: all of f32 and f16
  std::string name;              ///< of the new kernel; empty: the name of the kernel and ".vjp"
  /// Loops of more trips than this keep their carried values once in so many trips and compute those between
  /// again; 0 keeps them all.
  int64_t checkpoint = 0;
};

struct KernelVjpParam {
  enum class Role : uint8_t {
    primal,     ///< a buffer of the kernel as it was before it ran (out and accum: only its extents are read)
    cotangent,  ///< of an out or accum result, `in`
    gradient,   ///< of an `in`, accum: starts at zero
    adjoint,    ///< of an inout or tape: its cotangent (or zeros) goes in, the gradient of what it held comes
                ///< out
    tape        ///< scratch
  };
  Role role = Role::primal;
  std::string of;  ///< the kernel's parameter; empty of scratch that is the VJP's own
};
std::string_view name(KernelVjpParam::Role role);

struct KernelVjp {
  std::unique_ptr<Item> kernel;
  std::vector<KernelVjpParam> params;  ///< one for each parameter of `kernel`
  /// What tapeShape needs: the kernel as it was differentiated and, for each parameter, the loops whose trips
  /// its axes count (outermost first); then come the launch axes, of invocations or of workgroups, then the
  /// extents behind them.
  std::shared_ptr<const Item> source;
  struct TapeAxes {
    std::vector<const Op*> loops;
    std::vector<int> launch;
    bool ofGroups = false;
  };
  std::vector<TapeAxes> axes;
  std::vector<Diagnostic> remarks;  ///< on ops that a value passes but its gradient does not
};

/// The VJP of a verified kernel. An error says of each op on a path from `wrt` to `of` that has no derivative
/// where it stands, why, and what to do; a name in the request that is no such parameter is an error that
/// lists the ones there are.
Result<KernelVjp> differentiateKernel(const Module& module, const Item& kernel,
                                      const KernelVjpRequest& request);

/// The shape of a tape parameter of the VJP when the kernel's parameters have these shapes (in elements of
/// the buffers, nothing open). The error names a loop whose trips these shapes do not bound.
Result<Shape> tapeShape(const KernelVjp& vjp, int param, const Item& primal,
                        const std::vector<Shape>& shapes);

/// Why an op on an active path is refused: the rows of the documentation.
struct KernelVjpRefusal {
  std::string_view label, why, fix;
};
const std::vector<KernelVjpRefusal>& kernelVjpRefusals();

}  // namespace tg
