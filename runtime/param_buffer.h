// SPDX-License-Identifier: Apache-2.0
// A handle to the memory of one parameter of a session, which other sessions can bind.
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

/// A parameter's memory, reference-counted: it lives as long as the last copy of this handle.
struct ParamBuffer {
  Type type;
  std::string device;                      ///< its name, for messages
  std::shared_ptr<vulkan::Buffer> buffer;  ///< on a device: the parameter begins `offset` bytes into it
  int64_t offset = 0;
  std::shared_ptr<NdArray> array;  ///< on the interpreter, instead of a buffer
  /// Locked by whoever computes with the memory. Recursive: a call may run a learning rate's function, which may call
  /// another session that shares the memory.
  std::shared_ptr<std::recursive_mutex> turn;
};

/// Keyed by the parameter's name, without '@'.
using ParamBuffers = std::map<std::string, ParamBuffer, std::less<>>;

}  // namespace tg
