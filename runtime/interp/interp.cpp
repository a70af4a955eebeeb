// SPDX-License-Identifier: Apache-2.0
#include "runtime/interp/interp.h"

#include <random>

#include <fmt/format.h>

#include "ir/exceptions.h"
#include "ir/find.h"
#include "ir/text.h"
#include "runtime/interp/interp_state.h"

namespace tg {

const NdArray* RunResult::result(std::string_view name) const { return secondOf(results, name); }

Interpreter::Interpreter(std::unique_ptr<InterpState> state) : state_(std::move(state)) {}
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;
Interpreter::~Interpreter() = default;

Result<Interpreter> Interpreter::create(const Module& module, const InterpOptions& options) {
  return withinMemory(module.loc, "params, states and buffers", [&]() -> Result<Interpreter> {
    auto state = std::make_unique<InterpState>(module, options);
    for (const auto& item : module.items) {
      if (!isStorage(item->kind)) continue;
      if (!state->planned()) {
        state->storage.emplace(item->name, std::make_shared<NdArray>(NdArray::zeros(item->type)));
      } else if (!item->place) {
        return failAt(item->loc, "{} @{} has no home in a module of stage {}", name(item->kind), item->name,
                      name(module.stage));
      } else {
        TG_CHECK(
            state->memory.range(item->place->buffer, item->place->offset, item->type.bytes(), item->loc));
      }
    }
    return Interpreter(std::move(state));
  });
}

/// An error unless the array given for `what` has this type, and as many elements as the type says.
static Result<void> checkArray(const std::string& what, const Loc& loc, const Type& type,
                               const NdArray& array) {
  if (array.type != type)
    return failAt(loc, "{} is {}, but {} was given", what, type.str(), array.type.str());
  if (static_cast<int64_t>(array.data.size()) != type.elements())
    return failAt(loc, "{} has {}, but {}", what, countText(type.elements(), "element"),
                  countText(array.data.size(), "was given", "were given"));
  return {};
}

static Result<const Item*> findStorage(const Module& module, const std::string& name) {
  if (const Item* item = module.storage(name)) return item;
  std::vector<const Item*> known;
  for (const auto& each : module.items)
    if (isStorage(each->kind)) known.push_back(each.get());
  return fail("no param or state @{}; the module has {}", name, namesOf(known));
}

Result<void> Interpreter::setStorage(const std::string& name, const NdArray& value) {
  TG_TRY(const Item* item, findStorage(state_->module, name));
  TG_CHECK(checkArray(fmt::format("{} @{}", tg::name(item->kind), name), item->loc, item->type, value));
  if (state_->planned()) return state_->memory.write(value, *item->place, item->loc);
  NdArray& stored = *state_->storage.at(name);
  stored = value;
  if (state_->exact()) roundAll(stored);
  return {};
}

Result<NdArray> Interpreter::storage(const std::string& name) const {
  TG_TRY(const Item* item, findStorage(state_->module, name));
  if (state_->planned()) return state_->memory.read(item->type, *item->place, item->loc);
  return *state_->storage.at(name);
}

/// The place of the elements of a param or state from `first` on.
static Place rowsAt(const Item& item, int64_t first) {
  Place place = *item.place;
  place.offset += first * byteSize(item.type.dtype);
  return place;
}

Result<void> Interpreter::writeRows(const std::string& name, int64_t first,
                                    std::span<const double> elements) {
  TG_TRY(const Item* item, findStorage(state_->module, name));
  NdArray rows(Type::tensor(item->type.dtype, {static_cast<int64_t>(elements.size())}),
               {elements.begin(), elements.end()});
  if (state_->planned()) return state_->memory.write(rows, rowsAt(*item, first), item->loc);
  if (state_->exact()) roundAll(rows);
  std::ranges::copy(rows.data, state_->storage.at(name)->data.begin() + first);
  return {};
}

Result<void> Interpreter::readRows(const std::string& name, int64_t first, std::span<double> elements) const {
  TG_TRY(const Item* item, findStorage(state_->module, name));
  if (state_->planned()) {
    const Type type = Type::tensor(item->type.dtype, {static_cast<int64_t>(elements.size())});
    TG_TRY(const NdArray rows, state_->memory.read(type, rowsAt(*item, first), item->loc));
    std::ranges::copy(rows.data, elements.begin());
    return {};
  }
  const auto from = state_->storage.at(name)->data.begin() + first;
  std::copy(from, from + static_cast<int64_t>(elements.size()), elements.begin());
  return {};
}

Result<std::shared_ptr<NdArray>> Interpreter::sharedStorage(const std::string& name) const {
  TG_TRY(const Item* item, findStorage(state_->module, name));
  if (!state_->planned()) return state_->storage.at(name);
  return failAt(item->loc,
                "@{} is bytes of a plan, which the interpreter does not share; a module of stage tensor or "
                "fused can share it",
                name);
}

Result<void> Interpreter::shareStorage(const std::string& name, std::shared_ptr<NdArray> array) {
  TG_CHECK(sharedStorage(name));
  const Item* item = state_->module.storage(name);
  TG_CHECK(checkArray(fmt::format("{} @{}", tg::name(item->kind), name), item->loc, item->type, *array));
  state_->storage[name] = std::move(array);
  return {};
}

/// The inputs in the order of the function's arguments, each of its argument's type.
static Result<std::vector<const NdArray*>> orderInputs(const Item& function,
                                                       const std::map<std::string, NdArray>& inputs) {
  std::vector<const NdArray*> ordered;
  for (const auto& arg : function.body.args) {
    auto it = inputs.find(arg->name);
    if (it == inputs.end())
      return failAt(arg->loc, "@{} needs the input %{}: {}", function.name, arg->name, arg->type.str());
    TG_CHECK(checkArray(fmt::format("input %{} of @{}", arg->name, function.name), arg->loc, arg->type,
                        it->second));
    ordered.push_back(&it->second);
  }
  for (const auto& [name, array] : inputs) {
    if (function.arg(name)) continue;
    const std::string known = listText(function.body.args, [](const auto& arg) { return '%' + arg->name; });
    return failAt(function.loc, "@{} has no input %{}; it takes {}", function.name, name,
                  known.empty() ? "none" : known);
  }
  return ordered;
}

Result<RunResult> Interpreter::run(const std::string& function,
                                   const std::map<std::string, NdArray>& inputs) {
  const Module& module = state_->module;
  const Item* item = module.func(function);
  if (!item) return fail("no function @{}; the module has {}", function, namesOf(module.all(ItemKind::func)));
  TG_TRY(std::vector<const NdArray*> ordered, orderInputs(*item, inputs));
  std::minstd_rand noise(state_->options.noise);
  InterpCall call{*state_, *item, ordered, {state_->exact(), 0, &module, state_->options.kernel}, {}};
  if (state_->options.noise) call.context.noise = &noise;
  TG_CHECK(withinMemory(item->loc, "@" + function, [&] {
    return module.stage < Stage::planned    ? runTensors(call)
           : module.stage == Stage::planned ? runPlanned(call)
                                            : runCommands(call);
  }));
  call.result.counters.outOfRange += call.context.outOfRange;
  return std::move(call.result);
}

}  // namespace tg
