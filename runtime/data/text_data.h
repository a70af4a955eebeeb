// Text for character models: bytes as token ids, and random windows of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"

namespace tg {

/// The distinct bytes of a text, sorted by value; a byte's id is its place among them.
class Vocabulary {
 public:
  static Vocabulary ofText(std::string_view text);
  /// Reads what `printable` wrote.
  static Result<Vocabulary> parse(std::string_view printable);

  int size() const { return static_cast<int>(symbols_.size()); }
  /// The bytes in the order of their ids.
  const std::string& symbols() const { return symbols_; }
  /// One line of ASCII: printable bytes as they are, `\n`, `\t`, `\r`, `\\`, others as `\xHH`.
  std::string printable() const;

  /// An id for each byte; a byte outside the vocabulary is an error that says where it stands.
  Result<std::vector<int32_t>> encode(std::string_view text) const;
  /// The bytes of the ids; an id outside [0, size) is an error.
  Result<std::string> decode(std::span<const int32_t> ids) const;

 private:
  explicit Vocabulary(std::string symbols);
  std::string symbols_;
  std::array<int16_t, 256> ids_;  ///< by byte; -1 for those outside
};

struct TextData {
  Vocabulary vocabulary;
  std::vector<int32_t> tokens;
};

/// A text file with its own vocabulary. An empty file is an error.
Result<TextData> readText(const std::string& path);

/// Inputs and targets of a language model, i32 [batch, length]; y[b, t] is the token after x[b, t].
struct Windows {
  HostArray x, y;
};

/// `batch` windows of `length` tokens whose places are drawn evenly from all of `tokens`, a pure
/// function of (seed, step): any step is drawn without the earlier ones. Needs length + 1 tokens.
Result<Windows> sampleWindows(std::span<const int32_t> tokens, uint64_t seed, uint64_t step, int64_t batch,
                              int64_t length);

}  // namespace tg
