// SPDX-License-Identifier: Apache-2.0
// Records that TensorBoard reads: TFRecord frames around Event messages of protocol buffers.
//
// A frame is the length (u64), the masked CRC32C of its 8 bytes, the message, and the masked CRC32C of that;
// all little endian. Only the fields that scalars need are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tg {

/// CRC with the Castagnoli polynomial (RFC 3720, B.4).
uint32_t crc32c(std::string_view bytes);
/// Rotated and offset, so that the CRC of data that holds CRCs stays a good one.
uint32_t maskedCrc32c(std::string_view bytes);
/// The frame around one message.
std::string tfRecord(std::string_view message);

/// The first event of a file. `wallTime` is seconds since 1970, here and below.
std::string versionEvent(double wallTime);
/// Says that a resumed run starts: readers drop what other files hold of `step` and later.
std::string sessionStartEvent(double wallTime, int64_t step);
/// Scalars of one step; a value is stored as f32.
std::string scalarsEvent(double wallTime, int64_t step,
                         const std::vector<std::pair<std::string, double>>& values);

}  // namespace tg
