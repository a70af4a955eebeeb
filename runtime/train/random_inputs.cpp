// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/random_inputs.h"

#include "runtime/data/spec.h"
#include "runtime/train/feed.h"

namespace tg {

Result<HostArray> randomInput(const Item& func, const Value& argument, uint64_t seed) {
  InputSpec spec;
  spec.kind = InputSpec::Kind::rand;
  spec.seed = seed;
  if (int64_t limit = idLimit(func, &argument)) spec.below = static_cast<int32_t>(limit);
  return load(spec, argument.type, argument.name);
}

Result<Inputs> randomInputs(const Item& func) {
  Inputs inputs;
  uint64_t seed = 1;
  for (const auto& arg : func.body.args) {
    if (find(arg->attrs, "host")) continue;
    TG_TRY(HostArray value, randomInput(func, *arg, seed++));
    inputs.emplace(arg->name, std::move(value));
  }
  return inputs;
}

}  // namespace tg
