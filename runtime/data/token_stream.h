// SPDX-License-Identifier: Apache-2.0
// A long sequence of token ids in files, read on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/data_file.h"
#include "runtime/data/text_data.h"

namespace tg {

/// Token ids: the bytes of a text file, or the contents of token files one after another. They are read on demand.
class TokenStream {
 public:
  /// Opens a text with its own vocabulary, or with the given one, which must contain every byte of it. An empty file is
  /// an error.
  static Result<TokenStream> ofText(const std::string& path, const std::optional<Vocabulary>& given = {});
  /// Opens token files of llm.c, as names or shell patterns separated by commas. A file has 256 words of 32 bits
  /// (20240520, version 1, the number of tokens), and then the tokens in 16 bits each.
  static Result<TokenStream> ofTokenFiles(std::string_view paths);

  int64_t size() const { return size_; }
  /// The vocabulary of a text; null for other sources.
  const Vocabulary* vocabulary() const { return vocabulary_ ? &*vocabulary_ : nullptr; }
  /// Reads the ids first … first + to.size() - 1, which must exist. An error if a file's size has changed.
  Result<void> read(int64_t first, std::span<int32_t> to) const;
  /// The files in their order and their contents, for messages.
  std::string describe() const;

  /// The tokens of one file.
  struct Part {
    std::string path;
    std::shared_ptr<const DataFile> file;
    size_t start = 0;              ///< offset of the tokens in the file
    int64_t first = 0, count = 0;  ///< position in the stream
  };
  const std::vector<Part>& parts() const { return parts_; }
  /// The size of a token in a file.
  size_t tokenBytes() const { return vocabulary_ ? 1 : sizeof(uint16_t); }

 private:
  void append(Part part, int64_t count);
  Result<void> readPart(const Part& part, int64_t at, std::span<int32_t> to) const;

  std::vector<Part> parts_;
  std::optional<Vocabulary> vocabulary_;
  int64_t size_ = 0;
};

/// Inputs and targets of a language model, i32 [batch, length] each; y[b, t] is the token after x[b, t].
struct Windows {
  HostArray x, y;
};

/// Draws `batch` windows of `length` tokens, uniformly from the first `count` tokens. It is a pure function of (seed,
/// step), so any step can be drawn without the earlier ones. Needs length + 1 tokens.
Result<Windows> sampleWindows(const TokenStream& tokens, int64_t count, uint64_t seed, uint64_t step,
                              int64_t batch, int64_t length);

/// `batch` consecutive windows of `length` tokens from token `first` on; batch * length + 1 tokens must exist.
Result<Windows> windowsFrom(const TokenStream& tokens, int64_t first, int64_t batch, int64_t length);

}  // namespace tg
