#include "runtime/train/tensor_facts.h"

#include <algorithm>
#include <cmath>

#include "runtime/data/safetensors.h"

namespace tg {

namespace {

/// Bytes of an element by the last digits of its type's name; BOOL has one.
int64_t bytesOf(const std::string& dtype) {
  if (dtype.ends_with("64")) return 8;
  if (dtype.ends_with("32")) return 4;
  return dtype.ends_with("16") ? 2 : 1;
}

}  // namespace

TensorFacts tensorFacts(const std::string& name, const HostArray& array) {
  TensorFacts facts;
  facts.name = name;
  facts.shape = array.shape;
  // Welford's recurrence: the squares of large values do not cancel.
  double squares = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < array.elements(); ++i) {
    const double value = array.at(i);
    if (!std::isfinite(value)) {
      ++facts.nonFinite;
      continue;
    }
    facts.min = count ? std::min(facts.min, value) : value;
    facts.max = count ? std::max(facts.max, value) : value;
    const double before = value - facts.mean;
    facts.mean += before / static_cast<double>(++count);
    squares += before * (value - facts.mean);
  }
  if (count) facts.std = std::sqrt(squares / static_cast<double>(count));
  return facts;
}

Result<FileFacts> fileFacts(const std::string& path) {
  TG_TRY(Safetensors file, readSafetensors(path, Halves::keep));
  FileFacts out;
  out.metadata = std::move(file.metadata);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const auto& [name, array] = file.tensors[i];
    TensorFacts facts = tensorFacts(name, array);
    facts.dtype = file.fileTypes[i];
    facts.bytes = array.elements() * bytesOf(facts.dtype);
    out.tensors.push_back(std::move(facts));
  }
  return out;
}

}  // namespace tg
