// SPDX-License-Identifier: Apache-2.0
// Writes and reads state.json.
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>

#include "ir/file_io.h"
#include "ir/json_text.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/checkpoint_folder.h"

namespace tg {

namespace {

using nlohmann::json;

constexpr int64_t kFormat = 1;

template <class T>
Json toJson(const T& value) {
  return value;
}
Json toJson(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
template <class T>
Json toJson(const std::optional<T>& value) {
  return value ? toJson(*value) : Json();
}

/// Takes members out of a parsed state, and remembers the first that is missing or of another type.
class Members {
 public:
  explicit Members(const json& object) : object_(object) {}

  void take(const char* name, int64_t& into) { takeIf(isSigned, name, "an integer", into); }
  void take(const char* name, uint64_t& into) {
    takeIf(&json::is_number_unsigned, name, "an integer of 0 and more", into);
  }
  void take(const char* name, std::string& into) { takeIf(&json::is_string, name, "a string", into); }
  void take(const char* name, bool& into) { takeIf(&json::is_boolean, name, "true or false", into); }
  void take(const char* name, double& into) {
    const json* value = find(name);
    if (!value || !number(*value, into)) refuse(name, "a number");
  }
  template <class T>
  void take(const char* name, std::optional<T>& into) {
    const json* value = find(name);
    if (value && value->is_null()) return;
    take(name, into.emplace());
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const json* find(const char* name) const {
    auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  /// Whether a number is an int64_t.
  static bool isSigned(const json& value) {
    return value.is_number_integer() &&
           (!value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>()));
  }
  template <class Fits, class T>
  void takeIf(Fits fits, const char* name, const char* expected, T& into) {
    const json* value = find(name);
    if (value && std::invoke(fits, *value))
      into = value->get<T>();
    else
      refuse(name, expected);
  }
  static bool number(const json& value, double& into) {
    if (value.is_number()) return into = value.get<double>(), true;
    if (value == "nan") return into = std::numeric_limits<double>::quiet_NaN(), true;
    if (value == "inf") return into = std::numeric_limits<double>::infinity(), true;
    if (value == "-inf") return into = -std::numeric_limits<double>::infinity(), true;
    return false;
  }
  void refuse(const char* name, const char* expected) {
    if (!wrong_.empty()) return;
    wrong_ =
        find(name) ? fmt::format("expected {} to be {}", name, expected) : fmt::format("{} is missing", name);
  }

  const json& object_;
  std::string wrong_;
};

/// Lists the members once, for both writing and reading.
template <class State, class Visit>
void forEachMember(State& state, Visit visit) {
  visit("step", state.step);
  visit("seed", state.seed);
  visit("seconds", state.seconds);
  visit("module_hash", state.moduleHash);
  visit("final_hash", state.finalHash);
  visit("data_hash", state.dataHash);
  visit("state_hash", state.stateHash);
  visit("device", state.device);
  visit("driver", state.driver);
  visit("version", state.version);
  visit("vocabulary", state.vocabulary);
  visit("val_loss", state.valLoss);
  visit("best_val_loss", state.bestValLoss);
  visit("best_step", state.bestStep);
  visit("learning_rate", state.learningRate);
  visit("learning_rate_flag", state.learningRateFlag);
}

/// The same for those that files of older programs lack.
template <class State, class Visit>
void forEachLaterMember(State& state, Visit visit) {
  visit("ranks", state.ranks);  // older programs always had one rank
  visit("batches", state.batches);
  visit("steps_per_update", state.stepsPerUpdate);
  visit("stride", state.stride);
  visit("options", state.options);
  visit("eval_data_hash", state.evalHash);
  visit("evaluation_owed", state.evaluationOwed);
  visit("without_update", state.withoutUpdate);
  visit("left_out", state.leftOut);
}

}  // namespace

std::string stateToJson(const TrainState& state) {
  Json out;
  out["format"] = kFormat;
  forEachMember(state, [&](const char* name, const auto& value) { out[name] = toJson(value); });
  forEachLaterMember(state, [&](const char* name, const auto& value) {
    if (Json json = toJson(value); !json.is_null()) out[name] = std::move(json);
  });
  return jsonText(out, 2) + "\n";
}

Result<TrainState> stateFromJson(std::string_view text, const std::string& where) {
  const json object = parseJson<json>(text);
  if (!object.is_object()) return fail("{}: expected a JSON object", where);
  TrainState state;
  Members members(object);
  int64_t format = 0;
  members.take("format", format);
  if (members.wrong().empty() && format != kFormat)
    return fail("{}: it is of format {}, this program reads {}", where, format, kFormat);
  forEachMember(state, [&](const char* name, auto& value) { members.take(name, value); });
  forEachLaterMember(state, [&](const char* name, auto& value) {
    if (object.contains(name)) members.take(name, value);
  });
  if (!members.wrong().empty()) return fail("{}: {}", where, members.wrong());
  if (state.stride < 1) return fail("{}: expected a stride of 1 and more", where);
  if (state.step < 0) return fail("{}: expected a step of 0 and more", where);
  return state;
}

Result<TrainState> readState(const std::string& path) {
  const std::string file = fmt::format("{}/{}", path, kStateFile);
  TG_TRY(const auto bytes, readFile(file));
  return stateFromJson(asText(bytes), file);
}

}  // namespace tg
