// SPDX-License-Identifier: Apache-2.0
// A target is data: limits a device imposes and preferences that lowering asks about. Lowering
// never asks for a device by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attr.h"
#include "ir/result.h"
#include "ir/type.h"

namespace tg {

/// A product of matrices that a subgroup computes at once: A of m x k and B of k x n hold `operand`, C of
/// m x n holds and sums `result`.
struct CoopShape {
  int64_t m = 0, n = 0, k = 0;
  DType operand = DType::f16, result = DType::f32;
  bool operator==(const CoopShape&) const = default;
};

struct Target {
  std::string name = "vulkan-min";

  // Limits: a runtime refuses a module made for larger ones than its device has. Of `allocation` only the
  // buffers count: one that the device cannot make is refused.
  int64_t maxInvocations = 128;         ///< invocations in a workgroup
  int64_t maxWorkgroupX = 128;          ///< local size along x
  int64_t maxGrid = 65535;              ///< workgroups along each dimension
  int64_t sharedBytes = 16384;          ///< shared memory per workgroup
  int64_t storageRange = 134217728;     ///< bytes one storage binding may span
  int64_t allocation = 1073741824;      ///< bytes of one buffer; a plan's larger ones are made of several
  int64_t texelElements = 65536;        ///< texels one texel view may span
  int64_t bindings = 8;                 ///< storage buffers per kernel (texel views apart)
  int64_t alignment = 256;              ///< byte alignment of a binding's offset
  int64_t loopIterations = 4294967295;  ///< of all loops of an invocation together
  int64_t subgroup = 1;                 ///< subgroup width the kernels may rely on; 1 means none

  // Features: a kernel that needs one its target lacks is refused where it is compiled.
  bool subgroups = false;     ///< tgk.subgroup_reduce, subgroup_shuffle, subgroup_ballot and their ids
  bool floatAtomics = false;  ///< f32 additions to storage are one instruction; else a compare-and-swap loop
  bool halfStorage = false;   ///< storage buffers with elements of 16 bits
  std::vector<CoopShape> coopmat;    ///< the products tgk.coopmat_mma may make; none without matrix cores
  std::string matrices = "khr";      ///< "khr" | "nv": the SPIR-V extension that these come by
  std::string fragments = "opaque";  ///< "opaque" | "quads": which elements of a matrix an invocation has

  // Preferences: how to make kernels fast; never refused.
  std::string reads = "storage";     ///< "storage" | "texel"
  std::string reduce = "workgroup";  ///< "lane": one invocation per row | "workgroup"
  std::string matmul = "shared";     ///< "register" | "shared"
  int64_t workgroup = 64;            ///< invocations of a map kernel's workgroup
  int64_t parallel = 4096;           ///< invocations that keep the device busy
  int64_t streamScores = 1 << 20;    ///< bytes of attention scores from which they are not stored
  int64_t kernelOps = 16384;         ///< operations in a kernel's text (codeSize); more compile for minutes

  /// Processors that run workgroups side by side, where 512 invocations keep one busy.
  int64_t units() const { return parallel < 512 ? 1 : parallel / 512; }
  /// Whether subgroups of a known width multiply matrices of a type into f32, 16x16x16 at a time.
  bool multiplies(DType operand) const;

  /// The first offset from `offset` on where so many bytes cross no multiple of `allocation`, at which one
  /// buffer ends and the next begins. They do everywhere when they are more than an allocation.
  int64_t fit(int64_t offset, int64_t bytes) const {
    const int64_t next = (offset / allocation + 1) * allocation;
    return offset + bytes <= next ? offset : next;
  }
};

/// The names of the targets that ship with the compiler, in a fixed order.
std::vector<std::string_view> targetNames();
/// A shipped target by name; an error lists the known names.
Result<Target> targetByName(std::string_view name);
/// Reads a target from JSON; missing members keep vulkan-min's values, unknown ones are an error.
Result<Target> targetFromJson(std::string_view json, std::string_view file);
std::string targetToJson(const Target& target);
/// The form written on a module: `target = {name = "lavapipe", …}`, every member printed.
Attr targetToAttr(const Target& target);
Result<Target> targetFromAttr(const Attr& attr);
/// The target that stands among a module's attributes; vulkan-min when none does.
Result<Target> targetOf(const AttrList& attrs);

}  // namespace tg
