// SPDX-License-Identifier: Apache-2.0
// The driver's statistics on compiled kernels: registers, shared memory, spills. Each driver has its own names for
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tg::vulkan {

/// A figure with the driver's name for it.
struct Statistic {
  std::string name;
  double value = 0;
};

struct KernelStatistics {
  /// In the driver's order. If the driver compiled several programs for a kernel, the names have a prefix, such as
  /// "SIMD16: …".
  std::vector<Statistic> told;
  int64_t declaredShared = 0;  ///< bytes of shared memory in the kernel's text

  // The figures that are recognised by name; nothing if the driver does not give one, or has several programs.
  std::optional<double> registers() const;    ///< per invocation
  std::optional<double> sharedBytes() const;  ///< per workgroup; NVIDIA's compiler may spill registers there
  std::optional<double> spills() const;       ///< registers, or instructions that spill, as the driver counts
  std::optional<double> scratchBytes() const;
};

/// A text such as "96 registers, shared 24.6 KiB (18.9 declared), 3 spills, 64 bytes of scratch", with those that are
/// known; the driver's first figures if none of these is; "" without statistics.
std::string sentence(const KernelStatistics& statistics);

/// The same as a JSON object: `registers`, `shared_bytes`, `declared_shared_bytes`, `spills`, `scratch_bytes`, and all
/// of the driver's figures by its own names in `driver_tells`. Empty without statistics.
nlohmann::ordered_json toJson(const KernelStatistics& statistics);

}  // namespace tg::vulkan
