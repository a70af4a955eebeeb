// SPDX-License-Identifier: Apache-2.0
// Reads files that hold text (modules, targets, tuning files), and writes to descriptors.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "ir/result.h"

namespace tg {

/// A file descriptor, closed by the destructor. -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() { close(); }
  /// Opens a folder, to lock or to sync it.
  static Descriptor ofFolder(const std::string& path);

  explicit operator bool() const { return value_ >= 0; }
  int get() const { return value_; }
  /// False, with errno, if that fails: some network file systems report a full disk only here.
  bool close();

 private:
  int value_;
};

/// The content of a file. An error if it does not exist, cannot be read, is a folder, or contains a zero byte.
Result<std::string> readTextFile(const std::string& path);
/// The rest of an open file; `name` is for errors.
Result<std::string> readText(int file, const std::string& name);

/// Writes a whole text to a descriptor. False, with errno, if that fails. Safe in a signal handler.
bool writeAll(int file, std::string_view text);
/// Whether the open file is the one that the path names now, so that it was not replaced, moved or removed.
bool isFileAt(int file, const std::string& path);

}  // namespace tg
