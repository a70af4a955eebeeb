// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/tensorboard.h"

#include <array>
#include <bit>

namespace tg {

namespace {

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? 0x82f63b78u : 0);  // bits reversed
    table[byte] = rest;
  }
  return table;
}();

template <class T>
void putFixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void putVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

enum WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void putTag(std::string& out, int field, WireType type) {
  putVarint(out, static_cast<uint64_t>(field) << 3 | type);
}
void putBytes(std::string& out, int field, std::string_view text) {
  putTag(out, field, bytes);
  putVarint(out, text.size());
  out += text;
}

/// Event: double wall_time = 1, int64 step = 2, and one of string file_version = 3, Summary summary = 5,
/// SessionLog session_log = 7.
std::string event(double wallTime, int64_t step) {
  std::string out;
  putTag(out, 1, fixed64);
  putFixed(out, std::bit_cast<uint64_t>(wallTime));
  putTag(out, 2, varint);
  putVarint(out, static_cast<uint64_t>(step));
  return out;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char c : bytes) crc = kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t maskedCrc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

std::string tfRecord(std::string_view message) {
  std::string out;
  putFixed(out, static_cast<uint64_t>(message.size()));
  putFixed(out, maskedCrc32c(out));
  out += message;
  putFixed(out, maskedCrc32c(message));
  return out;
}

std::string versionEvent(double wallTime) {
  std::string out = event(wallTime, 0);
  putBytes(out, 3, "brain.Event:2");
  return out;
}

std::string sessionStartEvent(double wallTime, int64_t step) {
  std::string log;
  putTag(log, 1, varint);  // SessionLog: SessionStatus status = 1, of which START is 1
  putVarint(log, 1);
  std::string out = event(wallTime, step);
  putBytes(out, 7, log);
  return out;
}

std::string scalarsEvent(double wallTime, int64_t step,
                         const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;  // Summary: repeated Value value = 1
  for (const auto& [tag, value] : values) {
    std::string one;  // Value: string tag = 1, float simple_value = 2
    putBytes(one, 1, tag);
    putTag(one, 2, fixed32);
    putFixed(one, std::bit_cast<uint32_t>(static_cast<float>(value)));
    putBytes(summary, 1, one);
  }
  std::string out = event(wallTime, step);
  putBytes(out, 5, summary);
  return out;
}

}  // namespace tg
