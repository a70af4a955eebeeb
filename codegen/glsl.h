// SPDX-License-Identifier: Apache-2.0
// The kernel language as GLSL 450 for Vulkan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// A shader with, for each of its lines, where the line came from.
struct GlslText {
  std::string text;
  std::vector<Loc> lineLocs;              ///< lineLocs[i] is of line i + 1; null where no op stands behind it
  std::vector<std::string_view> lineOps;  ///< the op printed on that line, "tgk.add", or ""
  bool khrMatrices = false;               ///< matrices in SPIR-V's KHR form, which text of GLSL cannot say
};

/// Prints a verified kernel as a compute shader with entry point main. Parameter i is descriptor
/// set 0, binding i: a uniform texel buffer where its type says texel, else a storage buffer.
/// Names of the kernel stay; every float is `precise`, so nothing is contracted or reassociated.
/// f32 buffers that atomics work on are declared as uint, a sum being a compare-and-swap loop over their
/// bits; where the target has them, native additions take the loop's place. f16 buffers are declared as
/// 16-bit integers and converted by integer arithmetic, to the nearest even; shared ones as words of two. A
/// shader with matrices leaves rounding to f16 to the device, whose conversion goes to the nearest wherever
/// its matrices hold f16.
/// What GLSL leaves open is fixed here, and the kernel interpreter agrees: x/0 is the largest u32 and
/// 0 for i32, x%0 is 0, min and max give NaN when an operand is NaN, sign(NaN) is 0, shift counts are
/// taken mod 32. Casts of floats outside the integer's range stay open.
/// fma prints as GLSL's fma, which some drivers (Mesa 22.3's llvmpipe) round twice.
/// isnan and its kin look at bits. Errors: an op that legalize expands, an axis other than 0 that is open,
/// a feature the target lacks (checkFeatures).
Result<GlslText> printGlsl(const Item& kernel, const Target& target = {});

}  // namespace tg
