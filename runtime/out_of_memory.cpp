// SPDX-License-Identifier: Apache-2.0
#include "runtime/out_of_memory.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ir/text.h"
#include "runtime/train/plan_report.h"

namespace tg {

namespace {

constexpr size_t kLargest = 3;

}  // namespace

Error withMemory(Error error, const Module& module, int64_t freeBytes) {
  const MemoryReport memory = planReport(module).memory;
  error.addNote(nullptr,
                fmt::format("the module takes {}: {} of parameters and states, {} of inputs and results, {} "
                            "of values of one call; {} were free",
                            sizeText(memory.totalBytes()), sizeText(memory.persistentBytes),
                            sizeText(memory.ioBytes), sizeText(memory.arenaBytes), sizeText(freeBytes)));
  std::vector<MemoryValue> values = memory.values;
  std::stable_sort(values.begin(), values.end(),
                   [](const MemoryValue& a, const MemoryValue& b) { return a.bytes > b.bytes; });
  // Repeated blocks of a network share kernels, and so produce equal names; count them.
  std::map<std::string, int> count;
  std::vector<const MemoryValue*> named;
  for (const MemoryValue& value : values)
    if (count[value.name + value.type]++ == 0 && named.size() < kLargest) named.push_back(&value);
  for (const MemoryValue* value : named)
    error.addNote(nullptr, fmt::format("among the largest of @{}: {} : {}, {} each, {} of them",
                                       memory.function, value->name, value->type, sizeText(value->bytes),
                                       count[value->name + value->type]));
  error.addNote(nullptr,
                "--memory=BYTES (SessionOptions::memory) plans for less, and auto for what is free: kernels "
                "run again where values would take more");
  return error;
}

}  // namespace tg
