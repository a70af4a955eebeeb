// SPDX-License-Identifier: Apache-2.0
// Schedules measured on a device. A tuning file is one attribute dictionary from keys of regions to schedules:
// {r1f0c… = matmul{tile = [4, 8], workgroup = 16}}. `fuse{tuning=FILE}` reads it, `fuse{report=true}` prints the keys, and
// `tg-run tune` measures and writes it.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The key of a region in a tuning file: a hash of ir/op_bytes.h, so that equal regions share one. Where a slice begins does
/// not count, except along the last axis, since that may change how loads are vectorized. So the steps of a recurrent
/// network are tuned once.
std::string tuningKey(const Op& fused);

/// Reads a tuning file; "" gives an empty table. Fails if there is no such file or it has another format.
Result<AttrList> readTuning(const std::string& path);
/// Parses the text of a tuning file; errors name `path`.
Result<AttrList> parseTuning(const std::string& text, const std::string& path);

/// The text of a tuning file: one entry a line, sorted by key.
std::string printTuning(AttrList tuning);

}  // namespace tg
