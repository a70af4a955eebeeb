// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value, or the diagnostics that say why there is none. The library does not throw, print or exit across
// its boundary: every error of a user is returned as one of these.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ir/diagnostic.h"

namespace tg {

/// Why something failed: at least one diagnostic of severity error, the first being the main one.
class Error {
 public:
  Error() = default;
  explicit Error(Diagnostic diagnostic) { all_.push_back(std::move(diagnostic)); }
  Error(Loc loc, std::string message) {
    all_.push_back({Severity::error, std::move(loc), std::move(message), {}});
  }

  const std::vector<Diagnostic>& diagnostics() const { return all_; }
  /// The first message, without its location.
  const std::string& message() const { return all_.front().message; }
  void append(Error other) {
    for (auto& diagnostic : other.all_) all_.push_back(std::move(diagnostic));
  }
  /// Adds a note to the last diagnostic.
  void addNote(Loc loc, std::string text) {
    all_.back().notes.push_back({Severity::note, std::move(loc), std::move(text), {}});
  }
  /// The same for an error that is about to be returned.
  [[nodiscard]] Error note(Loc loc, std::string text) && {
    addNote(std::move(loc), std::move(text));
    return std::move(*this);
  }
  template <class First, class... Rest>
  void addNote(Loc loc, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    addNote(std::move(loc), fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  [[nodiscard]] Error note(Loc loc, fmt::format_string<First, Rest...> format, First&& first,
                           Rest&&... rest) && {
    addNote(std::move(loc), format, std::forward<First>(first), std::forward<Rest>(rest)...);
    return std::move(*this);
  }
  /// The exit code of a program that ends because of it. 1 unless set.
  int exitCode() const { return exitCode_; }
  [[nodiscard]] Error exiting(int code) && {
    exitCode_ = code;
    return std::move(*this);
  }
  bool empty() const { return all_.empty(); }
  /// All diagnostics in the form that is shown to users.
  std::string str() const;

 private:
  std::vector<Diagnostic> all_;
  int exitCode_ = 1;
};

/// An error without a location.
inline Error fail(std::string message) { return Error(nullptr, std::move(message)); }
inline Error failAt(Loc loc, std::string message) { return Error(std::move(loc), std::move(message)); }
/// The same with a message as fmt::format makes it.
template <class First, class... Rest>
Error fail(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  return fail(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}
template <class First, class... Rest>
Error failAt(Loc loc, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
  return Error(std::move(loc), fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) { assert(!error_.empty()); }
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }
  Error takeError() { return std::move(error_); }

 private:
  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) { assert(!error_.empty()); }
  explicit operator bool() const { return error_.empty(); }
  const Error& error() const { return error_; }
  Error takeError() { return std::move(error_); }

 private:
  Error error_;
};

/// `TG_TRY(value, expression)`: declares `value` from a Result, or returns its error.
#define TG_CONCAT_(a, b) a##b
#define TG_CONCAT(a, b) TG_CONCAT_(a, b)
#define TG_TRY(decl, ...)                                                           \
  auto TG_CONCAT(tgTry_, __LINE__) = (__VA_ARGS__);                                 \
  if (!TG_CONCAT(tgTry_, __LINE__)) return TG_CONCAT(tgTry_, __LINE__).takeError(); \
  decl = *std::move(TG_CONCAT(tgTry_, __LINE__))
/// `TG_CHECK(expression)`: returns the error of a Result<void>.
#define TG_CHECK(...) \
  if (auto tgCheck = (__VA_ARGS__); !tgCheck) return tgCheck.takeError()

}  // namespace tg
