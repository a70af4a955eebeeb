// SPDX-License-Identifier: Apache-2.0
#include "runtime/check/random_point.h"

#include <cmath>

#include "ir/philox.h"
#include "runtime/data/init.h"
#include "runtime/data/spec.h"
#include "runtime/interp_runner.h"
#include "runtime/train/feed.h"

namespace tg {

namespace {

constexpr uint32_t kStream = 0x67726164;
constexpr double kVectorSize = 0.3;
constexpr double kLearningRate = 1e-3;

HostArray hostScalar(const Value& arg, const std::string& role, uint64_t seed) {
  HostArray value = HostArray::zeros(arg.type);
  if (role == "loss_scale") value.set(0, 1);
  if (role == "lr") value.set(0, kLearningRate);
  if (role == "rng") value.i32()[0] = static_cast<int32_t>(static_cast<uint32_t>(seed));
  return value;
}

}  // namespace

NdArray randomNormal(const Type& type, uint64_t seed, uint32_t salt) {
  NdArray out = NdArray::zeros(type);
  for (size_t i = 0; i < out.data.size(); ++i) {
    auto words = philox({lowWord(i), highWord(i), salt, kStream}, {lowWord(seed), highWord(seed)});
    out.data[i] = philoxNormal(words[0], words[1]);
  }
  return out;
}

Result<NamedArrays> randomStorage(const Module& module, uint64_t seed) {
  NamedArrays out;
  uint32_t salt = 1;
  for (const Item* param : module.all(ItemKind::param)) {
    NdArray value = randomNormal(param->type, seed, salt++);
    double scale =
        param->type.rank() < 2
            ? kVectorSize
            : 1 / std::sqrt(static_cast<double>(param->type.elements() / param->type.shape.back()));
    for (double& x : value.data) x *= scale;
    out.emplace_back(param->name, toHostArray(value));
  }
  for (const Item* state : module.all(ItemKind::state)) {
    TG_TRY(const FirstValue first, FirstValue::of(*state, seed));
    HostArray value = HostArray::zeros(state->type);
    first.fill(0, value.bytes);
    out.emplace_back(state->name, std::move(value));
  }
  return out;
}

Result<Inputs> randomInputs(const Item& func, const std::vector<std::string>& given, uint64_t seed) {
  std::map<std::string, InputSpec> specs;
  for (const std::string& text : given) {
    TG_TRY(auto spec, parseInputSpec(text));
    if (!func.arg(spec.first)) return fail("@{} has no input '{}'", func.name, spec.first);
    specs.insert_or_assign(spec.first, spec.second);
  }
  Inputs out;
  uint64_t argSeed = seed;
  for (const auto& arg : func.body.args) {
    ++argSeed;
    auto found = specs.find(arg->name);
    const Attr* host = find(arg->attrs, "host");
    if (host && found == specs.end()) {
      out.emplace(arg->name, hostScalar(*arg, host->text, seed));
      continue;
    }
    TG_TRY(HostArray value, found == specs.end() ? randomInput(func, *arg, argSeed)
                                                 : load(found->second, arg->type, arg->name));
    out.emplace(arg->name, std::move(value));
  }
  return out;
}

}  // namespace tg
