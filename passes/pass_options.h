// SPDX-License-Identifier: Apache-2.0
// Converts between options structs and text: descriptions, parsing and checks, all from a struct's fields().
#pragma once

#include "passes/pass.h"

namespace tg {

namespace option_text {
inline std::string typeName(const bool&) { return "bool"; }
inline std::string typeName(const int64_t&) { return "int"; }
inline std::string typeName(const double&) { return "double"; }
inline std::string typeName(const std::string&) { return "string"; }
/// A learning rate: a number, or a rate schedule as a `schedule` attribute spells it.
inline std::string typeName(const Attr&) { return "rate"; }
std::string show(bool value);
std::string show(int64_t value);
std::string show(double value);
std::string show(const std::string& value);
std::string show(const Attr& value);
/// Reads a value; false if the attribute is of another kind.
bool read(const Attr& attr, bool& out);
bool read(const Attr& attr, int64_t& out);
bool read(const Attr& attr, double& out);
bool read(const Attr& attr, std::string& out);
bool read(const Attr& attr, Attr& out);
}  // namespace option_text

/// `append-adam has no option 'rl'; did you mean 'lr'? (options: func, lr, …)`
Error unknownOption(std::string_view pass, std::string_view option, const std::vector<OptionInfo>& known);
/// `append-adam: option 'lr' takes a double, not abc`
Error badOption(std::string_view pass, const OptionInfo& option, std::string_view value);

/// Descriptions of the fields of an options struct, with their defaults.
template <class Options>
std::vector<OptionInfo> describeOptions() {
  std::vector<OptionInfo> out;
  const Options fresh;
  auto add = [&](const auto&... field) {
    (out.push_back({field.name, option_text::typeName(fresh.*(field.member)),
                    option_text::show(fresh.*(field.member)), field.help, field.bare ? field.bare : ""}),
     ...);
  };
  std::apply(add, Options::fields());
  return out;
}

/// Fills a struct from attributes; fields without one keep their defaults.
template <class Options>
Result<Options> readOptions(std::string_view pass, const AttrList& attrs) {
  Options out;
  for (const NamedAttr& attr : attrs) {
    bool known = false, fits = true;
    auto assign = [&](const auto& field) {
      if (attr.name != field.name) return;
      known = true;
      fits = option_text::read(attr.value, out.*(field.member));
    };
    std::apply([&](const auto&... field) { (assign(field), ...); }, Options::fields());
    if (known && fits) continue;
    const std::vector<OptionInfo> infos = describeOptions<Options>();
    if (!known) return unknownOption(pass, attr.name, infos);
    for (const OptionInfo& info : infos)
      if (info.name == attr.name) return badOption(pass, info, attr.value.str());
  }
  return out;
}

/// The factory of a pass function that takes an options struct.
template <class Options>
PassFactory passFactory(std::string name, Result<void> (*run)(Module&, const Options&, const PassContext&)) {
  return [name = std::move(name), run](const AttrList& attrs) -> Result<PassFunction> {
    if (!run) return PassFunction();
    TG_TRY(Options options, readOptions<Options>(name, attrs));
    return PassFunction([run, options = std::move(options)](Module& module, const PassContext& context) {
      return run(module, options, context);
    });
  };
}

}  // namespace tg
