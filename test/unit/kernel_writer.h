// SPDX-License-Identifier: Apache-2.0
// Writes the text of one random kernel: values in scope, fresh names, expressions of bounded magnitude.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "test/unit/kernel_grad_check.h"

namespace tg::test {

/// A generator of its own, so that a seed means the same kernel with every standard library.
class KernelRandom {
 public:
  explicit KernelRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) {}
  uint64_t bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1d >> 16;
  }
  /// 0..count-1
  int below(int count) { return static_cast<int>(bits() % static_cast<uint64_t>(count)); }
  int between(int least, int most) { return least + below(most - least + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
  }
  /// Multiples of 1/64 in -2..2 that are no multiples of 1/4.
  double value() {
    int steps = below(256) - 128;
    return (steps % 16 == 0 ? steps + 3 : steps) / 64.0;
  }

 private:
  uint64_t state_;
};

/// A float or integer in scope.
struct ScopedValue {
  std::string name;
  int lanes = 1;
  double most = 4;       ///< floats: about the largest magnitude
  bool uniform = false;  ///< integers: the same in a whole workgroup
};

/// What the values in scope are, and the text so far.
class KernelText {
 public:
  explicit KernelText(KernelRandom& random) : random_(random) {}

  void line(const std::string& text) {
    body_ += std::string(static_cast<size_t>(2 * depth_), ' ') + text + "\n";
  }
  /// `%name = text`; the fresh name.
  std::string let(const std::string& text, const char* hint = "v") {
    std::string name = fmt::format("%{}{}", hint, next_++);
    line(name + " = " + text);
    return name;
  }
  std::string fresh(const char* hint) { return fmt::format("%{}{}", hint, next_++); }
  void open(const std::string& text) {
    line(text + " {");
    ++depth_;
    scopes_.push_back({floats_.size(), ints_.size()});
  }
  void close(const std::string& text = "}") {
    leave();
    line(text);
  }
  /// `} else {`
  void otherwise() {
    leave();
    line("} else {");
    ++depth_;
    scopes_.push_back({floats_.size(), ints_.size()});
  }

  void addFloat(ScopedValue value) { floats_.push_back(std::move(value)); }
  void addInt(std::string name, bool uniform) { ints_.push_back({std::move(name), 1, 0, uniform}); }

  /// A scalar float of magnitude at most `most`, squashed if need be; sometimes a literal.
  std::string number(double most = 4, int literals = 12);
  /// The same for vectors; empty when none is in scope.
  std::string vector(int lanes, double most);
  /// A u32 or a literal; uniform if asked for.
  std::string integer(bool uniform, int literals = 25);
  /// An operand in 0..extent-1.
  std::string index(int extent, bool uniform = false);
  /// A bool; uniform if asked for, else sometimes of floats.
  std::string condition(bool uniform);
  /// A literal of at most this magnitude.
  std::string literal(double most = 2) {
    return fmt::format("{}", random_.value() * (most < 2 ? most / 2 : 1));
  }
  /// New scalar values.
  void arithmetic();
  void vectors();

  const std::string& body() const { return body_; }
  int depth() const { return depth_; }
  /// Floats in scope, the newest last.
  const std::vector<ScopedValue>& floats() const { return floats_; }

 private:
  void leave() {
    --depth_;
    floats_.resize(scopes_.back().first);
    ints_.resize(scopes_.back().second);
    scopes_.pop_back();
  }
  void unary();
  void binary();
  void corner();
  void masked();
  void inactive();

  KernelRandom& random_;
  std::string body_;
  int depth_ = 1, next_ = 0;
  std::vector<ScopedValue> floats_, ints_;
  std::vector<std::pair<size_t, size_t>> scopes_;
};

}  // namespace tg::test
