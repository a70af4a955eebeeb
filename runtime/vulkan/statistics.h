// SPDX-License-Identifier: Apache-2.0
// What drivers tell of kernels that they have compiled: registers, shared memory, what did not fit. Each driver has its
// own words for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tg::vulkan {

/// A figure in the driver's words.
struct Statistic {
  std::string name;
  double value = 0;
};

struct KernelStatistics {
  /// In the driver's order. Where it made several programs of a kernel, each has its name in front, "SIMD16: …".
  std::vector<Statistic> told;
  int64_t declaredShared = 0;  ///< bytes of shared memory in the kernel's text

  // What is known by these drivers' words; nothing where the driver does not tell it, or of several programs.
  std::optional<double> registers() const;    ///< of an invocation
  std::optional<double> sharedBytes() const;  ///< of a workgroup; NVIDIA's compiler spills registers there
  std::optional<double> spills() const;       ///< registers, or instructions that spill, as the driver counts
  std::optional<double> scratchBytes() const;
};

/// "96 registers, shared 24.6 KiB (18.9 declared), 3 spills, 64 bytes of scratch", what there is of it; the driver's first
/// figures where none of these; "" where it tells nothing.
std::string sentence(const KernelStatistics& statistics);

/// A JSON object of the same: `registers`, `shared_bytes`, `declared_shared_bytes`, `spills`, `scratch_bytes`, and in
/// `driver_tells` all figures by the driver's words. Without members where it tells nothing.
std::string toJson(const KernelStatistics& statistics);

}  // namespace tg::vulkan
