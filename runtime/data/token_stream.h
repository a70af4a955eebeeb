// SPDX-License-Identifier: Apache-2.0
// A long row of token ids in files, read where it is asked for.
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

/// Ids of the bytes of a text, or those of token files one after another, read where they are asked for.
class TokenStream {
 public:
  /// A text, with its own vocabulary or the one given, in which every byte of it must be. An empty file is an
  /// error.
  static Result<TokenStream> ofText(const std::string& path, const std::optional<Vocabulary>& given = {});
  /// Files of llm.c, separated by commas, each a name or a pattern of the shell: 256 words of 32 bits
  /// (20240520, version 1, the count of tokens), then the tokens in 16 bits each.
  static Result<TokenStream> ofTokenFiles(std::string_view paths);
  /// Ids in memory.
  static TokenStream ofIds(std::vector<int32_t> ids);

  int64_t size() const { return size_; }
  /// Of a text, or null.
  const Vocabulary* vocabulary() const { return vocabulary_ ? &*vocabulary_ : nullptr; }
  /// The ids first … first + to.size() - 1, which must be there. An error when a file has changed its size.
  Result<void> read(int64_t first, std::span<int32_t> to) const;
  /// The files in their order and what they hold, for people.
  std::string describe() const;

  /// One file's tokens.
  struct Part {
    std::string path;
    std::shared_ptr<const DataFile> file;  ///< null for ids in memory
    size_t start = 0;                      ///< where the tokens begin in the file
    int64_t first = 0, count = 0;          ///< place in the stream
  };
  const std::vector<Part>& parts() const { return parts_; }
  /// Of a token in a file.
  size_t tokenBytes() const { return vocabulary_ ? 1 : sizeof(uint16_t); }

 private:
  void append(Part part, int64_t count);
  Result<void> readPart(const Part& part, int64_t at, std::span<int32_t> to) const;

  std::vector<Part> parts_;
  std::shared_ptr<const std::vector<int32_t>> ids_;
  std::optional<Vocabulary> vocabulary_;
  int64_t size_ = 0;
};

/// Inputs and targets of a language model, i32 [batch, length]; y[b, t] is the token after x[b, t].
struct Windows {
  HostArray x, y;
};

/// `batch` windows of `length` tokens whose places are drawn evenly from all of the first `count` tokens, a
/// pure function of (seed, step): any step is drawn without the earlier ones. Needs length + 1 tokens.
Result<Windows> sampleWindows(const TokenStream& tokens, int64_t count, uint64_t seed, uint64_t step,
                              int64_t batch, int64_t length);

/// The `batch` windows of `length` tokens that follow one another from token `first` on; batch * length + 1
/// tokens must be there.
Result<Windows> windowsFrom(const TokenStream& tokens, int64_t first, int64_t batch, int64_t length);

}  // namespace tg
