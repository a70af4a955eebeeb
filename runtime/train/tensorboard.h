// SPDX-License-Identifier: Apache-2.0
// Records for TensorBoard: TFRecord frames around protocol buffer messages of type Event.
//
// A frame consists of the length (u64), the masked CRC32C of the length's 8 bytes, the message, and the masked CRC32C
// of the message; all are little-endian. Only the fields that scalars need are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tg {

/// CRC with the Castagnoli polynomial (RFC 3720, B.4).
uint32_t crc32c(std::string_view bytes);
/// The CRC rotated and offset, because the CRC of data that contains CRCs would be weak.
uint32_t maskedCrc32c(std::string_view bytes);
/// A message with its frame.
std::string tfRecord(std::string_view message);

/// The first event of a file. `wallTime` is in seconds since 1970, here and below.
std::string versionEvent(double wallTime);
/// Marks the start of a resumed run: readers drop what other files have from `step` on.
std::string sessionStartEvent(double wallTime, int64_t step);
/// The scalars of one step; values are stored as f32.
std::string scalarsEvent(double wallTime, int64_t step,
                         const std::vector<std::pair<std::string, double>>& values);

}  // namespace tg
