// SPDX-License-Identifier: Apache-2.0
// Prints kernels as GLSL 450 for Vulkan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "ir/target.h"

namespace tg {

/// A shader's text, and the source location of each line.
struct GlslText {
  std::string text;
  std::vector<Loc> lineLocs;  ///< lineLocs[i] belongs to line i + 1; null if no op was printed there
  std::vector<std::string_view> lineOps;  ///< the op printed on that line, "tgk.add", or ""
  bool khrMatrices = false;  ///< the SPIR-V needs KHR matrices, which GLSL cannot say (toKhrMatrices)
};

/// Prints a verified kernel as a compute shader with entry point main. Parameter i is descriptor set 0, binding i:
/// a uniform texel buffer if its type says texel, else a storage buffer. Values keep their names. Every float is
/// `precise`, so that nothing is contracted or reassociated.
///
/// f32 buffers that atomics work on are declared as uint, and an atomic sum is a compare-and-swap loop over their
/// bits; targets with native additions use them. f16 and bf16 buffers are declared as 16-bit integers and
/// converted by integer arithmetic, to the nearest even; two share a word in shared memory, and in storage if the
/// target has no 16-bit access. Shaders with matrices leave rounding to f16 to the device, whose conversion rounds
/// to the nearest on every device with matrices of f16.
///
/// Cases that GLSL leaves undefined are fixed here, in agreement with the kernel interpreter: x/0 is the largest
/// u32 and 0 for i32, x%0 is 0, min and max give NaN if an operand is NaN, sign(NaN) is 0, shift counts are taken
/// mod 32. Casts of floats clamp to the integer's range and give 0 for NaN. isnan and similar tests compare bits.
/// fma prints as GLSL's fma, which some drivers (Mesa 22.3's llvmpipe) round twice.
///
/// Errors: an op that legalize must expand first, an open axis other than 0, a feature that the target lacks
/// (checkFeatures).
Result<GlslText> printGlsl(const Item& kernel, const Target& target = {});

/// The GLSL of every kernel of a module of stage kernel or spirv, each under a line `// kernel @name`. The error
/// lists every kernel that cannot be printed.
Result<std::string> emitGlsl(const Module& module);

}  // namespace tg
