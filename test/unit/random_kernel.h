// SPDX-License-Identifier: Apache-2.0
// Random kernels without races, out-of-range accesses or undefined values, as text.
#pragma once

#include <string>

namespace tg::test {

/// `kernel @k` of 16 invocations in two workgroups: loads, arithmetic with literals that have identities,
/// branches and loops that may be constant, local and shared memory, trees, atomics. The same seed gives the
/// same.
std::string randomKernel(uint32_t seed);

}  // namespace tg::test
