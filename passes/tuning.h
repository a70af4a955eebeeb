// SPDX-License-Identifier: Apache-2.0
// Schedules measured on a device. A tuning file is one attribute dictionary from a region's key to the
// schedule it shall have: {r1f0c… = matmul{tile = [4, 8], workgroup = 16}}. `fuse{tuning=FILE}` reads it,
// `fuse{report=true}` prints the keys, `tg-run tune` measures and writes.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/result.h"

namespace tg {

/// The name a tuning file gives a region: a hash of ir/region_key.h, so that equal regions share one.
std::string tuningKey(const Op& fused);

/// Reads a tuning file; "" gives an empty table. Errors: no such file, another kind of text.
Result<AttrList> readTuning(const std::string& path);
/// The text of one; errors name `path`.
Result<AttrList> parseTuning(const std::string& text, const std::string& path);

/// The text of a tuning file, an entry a line, by key.
std::string printTuning(AttrList tuning);

}  // namespace tg
