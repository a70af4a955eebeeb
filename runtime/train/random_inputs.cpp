#include "runtime/train/random_inputs.h"

#include "runtime/data/spec.h"
#include "runtime/train/feed.h"

namespace tg {

Result<Inputs> randomInputs(const Item& func) {
  Inputs inputs;
  uint64_t seed = 1;
  for (const auto& arg : func.body.args) {
    if (find(arg->attrs, "host")) continue;
    InputSpec spec;
    spec.kind = InputSpec::Kind::rand;
    spec.seed = seed++;
    if (int64_t limit = idLimit(func, arg.get())) spec.below = static_cast<int32_t>(limit);
    TG_TRY(HostArray value, load(spec, arg->type, arg->name));
    inputs.emplace(arg->name, std::move(value));
  }
  return inputs;
}

}  // namespace tg
