// SPDX-License-Identifier: Apache-2.0
// Damages texts the way people and disks do: numbers become 0, -1 or huge, lines go, come twice or change
// places, names and attributes are those of another place or of another text, the end is missing. Works on
// tokens of any text, so that modules, JSON, TOML and tuning files are damaged alike. The same seed damages
// the same way.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tg::fuzz {

class Mutator {
 public:
  /// Takes tokens and lines from the donors too; they must outlive the mutator.
  Mutator(uint64_t seed, const std::vector<std::string>& donors) : random_(seed), donors_(donors) {}

  /// A damaged copy: one to four changes, the most of which keep a text that reads.
  std::string mutate(std::string text);
  /// A number in [0, count), equal on every platform.
  size_t pick(size_t count) { return count ? static_cast<size_t>(random_() % count) : 0; }

 private:
  using Span = std::pair<size_t, size_t>;  ///< begin and length

  void change(std::string& text);
  void number(std::string& text);
  void exchange(std::string& text);
  void fromDonor(std::string& text);
  void line(std::string& text);
  void bytes(std::string& text);
  Span token(std::string_view text);
  Span lineAt(std::string_view text);
  /// A token of a kind, in `from`, after some tries; an empty one when none was met.
  std::string like(std::string_view token, const std::string& from);

  std::mt19937_64 random_;
  const std::vector<std::string>& donors_;
};

}  // namespace tg::fuzz
