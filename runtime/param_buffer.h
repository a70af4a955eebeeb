// SPDX-License-Identifier: Apache-2.0
// Where a session keeps one parameter: a handle that other sessions can bind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ir/type.h"
#include "runtime/interp/nd_array.h"
#include "runtime/vulkan/memory.h"

namespace tg {

/// A parameter's memory. Copies share it, and it lives as long as the last of them.
struct ParamBuffer {
  Type type;
  std::string device;                      ///< for people
  std::shared_ptr<vulkan::Buffer> buffer;  ///< on a device: holds the parameter from `offset` bytes on
  int64_t offset = 0;
  std::shared_ptr<NdArray> array;  ///< on the interpreter, in place of a buffer
  /// Held by whoever computes with the memory. Recursive, because a learning rate's function, which runs in a call of one
  /// session, may call another.
  std::shared_ptr<std::recursive_mutex> turn;
};

/// By the parameter's name, without '@'.
using ParamBuffers = std::map<std::string, ParamBuffer, std::less<>>;

}  // namespace tg
