// SPDX-License-Identifier: Apache-2.0
// What authors of CUDA, GLSL and Triton look for and the kernel language spells in another way.
#pragma once

#include <string_view>

namespace tg {

/// How something is written that the kernel language has under no such name, "" for what is not known either.
/// `word` is the name without `tgk.`.
std::string_view insteadOf(std::string_view word);

}  // namespace tg
