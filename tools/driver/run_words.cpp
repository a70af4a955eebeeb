// SPDX-License-Identifier: Apache-2.0
// Parses and checks the words after a verb, and reports wrong ones.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "runtime/data/spec.h"
#include "runtime/train/feed.h"
#include "tools/driver/cli.h"
#include "tools/driver/io.h"
#include "tools/driver/run_config.h"
#include "tools/driver/run_setup.h"
#include "tools/driver/train_flags.h"

namespace tg {

static CLI::Validator numberCheck(const std::string& range, bool (*good)(double, double, double), double a,
                                  double b) {
  auto check = [=](const std::string& text) {
    double value = 0;
    // A value that is not a number is reported by the option's type.
    if (!CLI::detail::lexical_cast(text, value) || good(value, a, b)) return std::string();
    return fmt::format("expected a number {}, not {}", range, text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator atLeast(double least) {
  return numberCheck(
      fmt::format("of at least {}", least), [](double x, double a, double) { return x >= a; }, least, 0);
}
CLI::Validator between(double least, double most) {
  return numberCheck(
      fmt::format("from {} to {}", least, most),
      [](double x, double a, double b) { return x >= a && x <= b; }, least, most);
}

/// Finds wrong numbers that CLI11 accepts: it truncates numbers that are too large, wraps negative ones, and accepts
/// nan.
static std::string wrongNumber(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool natural = type.starts_with("UINT"), real = type.starts_with("FLOAT");
    if (!natural && !real && !type.starts_with("INT")) continue;
    for (const std::string& text : option->results()) {
      const char *begin = text.data() + text.starts_with('+'), *end = text.data() + text.size();
      int64_t whole = 0;
      uint64_t positive = 0;
      double number = 0;
      auto [at, status] = real      ? std::from_chars(begin, end, number)
                          : natural ? std::from_chars(begin, end, positive)
                                    : std::from_chars(begin, end, whole);
      // CLI11 reads a leading zero as octal.
      const bool octal = !real && end - begin > 1 && *begin == '0';
      if (status == std::errc() && at == end && std::isfinite(number) && !octal) continue;
      return fmt::format("{} is '{}': expected {}", option->get_name(), text,
                         real      ? "a finite number"
                         : natural ? "a whole number from 0 to 18446744073709551615"
                                   : "a whole number of at most 19 digits");
    }
  }
  return "";
}

/// Finds values of flags other than true and false.
static std::string wrongFlag(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() == 0)
      for (const std::string& text : option->results())
        if (const std::string why = notTrueOrFalse(text); !why.empty())
          return fmt::format("{}={}", option->get_name(), why);
  return "";
}

/// An option whose value is an empty word, as a shell makes it of an unset variable: `--out "$OUT"`. For an option with a
/// default an empty word may have a meaning of its own. A run's config.toml may hold one.
static std::string emptyValue(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& text : option->results())
      if (text.empty() && option->get_default_str().empty() && configOf(app, option->get_name()).empty())
        return fmt::format("{} has no value", option->get_name());
  return "";
}

/// The values of an option that the verb may lack.
static std::vector<std::string> valuesOf(const CLI::App& app, const std::string& flag) {
  const CLI::Option* option = app.get_option_no_throw(flag);
  return option ? option->results() : std::vector<std::string>();
}

/// An error if one name is given two values: `--set-dim=time=8 --set-dim=time=16`.
static std::string nameTwice(const CLI::App& app) {
  for (const char* flag : {"--set-dim", "--set", "--input"}) {
    std::map<std::string, std::string> given;
    for (const std::string& text : valuesOf(app, flag)) {
      std::string name = CLI::detail::trim_copy(text.substr(0, text.find('=')));
      if (name.starts_with("%")) name.erase(0, 1);
      const auto [first, isNew] = given.try_emplace(name, text);
      if (!isNew)
        return fmt::format("{} says two values for {}: '{}' and '{}'", flag, name, first->second, text);
    }
  }
  return "";
}

/// Checks the syntax of sources of values. Whether they exist and fit is checked later.
static Result<void> checkSources(const CLI::App& app) {
  for (const auto& [flag, kind] : {std::pair("--input", "input"), std::pair("--set", "parameter"),
                                   std::pair("--expected-output", "result")})
    for (const std::string& text : valuesOf(app, flag)) TG_CHECK(parseInputSpec(text, kind));
  TG_TRY(const DataFlags data, parseData(valuesOf(app, "--data")));
  TG_CHECK(checkBindings(data.train));
  return checkBindings(data.val);
}

/// Finds wrong values that CLI11 accepts. Passes are checked here because plug-ins among the options add more of them.
static Result<void> checkValues(const CLI::App& app) {
  for (const std::string& wrong : {emptyValue(app), wrongNumber(app), wrongFlag(app), nameTwice(app)})
    if (!wrong.empty()) return fail(wrong);
  TG_CHECK(checkSources(app));
  auto given = [&](const char* flag) {
    const std::vector<std::string> values = valuesOf(app, flag);
    return values.empty() ? "" : values.back();
  };
  if (const std::string target = given("--target");
      !target.empty() && target != "auto" && !isTargetFile(target))
    TG_CHECK(readTarget(target));
  return checkPipeline(given("--pipeline"));
}

/// The first option that is given more often than it takes values, or "".
static std::string givenTwice(const CLI::App& app, const Arguments& args) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_items_expected_max() != 1) continue;
    const std::string flag = "--" + option->get_lnames().front();
    const std::string letter = option->get_snames().empty() ? flag : "-" + option->get_snames().front();
    const auto count = std::ranges::count_if(args, [&](const std::string& word) {
      return word == flag || word.starts_with(flag + "=") || (letter != flag && word.starts_with(letter));
    });
    if (count > 1) return flag;
  }
  return "";
}

/// The first option with nothing after its '=', or "". CLI11 would take the next word as its value, or none.
static std::string withoutValue(const CLI::App& app, const Arguments& args) {
  for (const std::string& word : args) {
    if (word == "--") break;
    if (!word.starts_with("--") || !word.ends_with('=')) continue;
    const std::string flag = word.substr(0, word.size() - 1);
    if (app.get_option_no_throw(flag)) return flag;
  }
  return "";
}

static void parseWords(CLI::App& app, const Arguments& args) {
  Arguments reversed = withoutShortEquals(args);
  std::ranges::reverse(reversed);  // CLI11 reads a vector from its end
  app.parse(std::move(reversed));
}

/// The file of --config, if the words parse without it: the error is then in the file.
static std::string faultyConfig(CLI::App& app, const Arguments& args) {
  std::string file;
  Arguments rest;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].starts_with("--config="))
      file = args[i].substr(args[i].find('=') + 1);
    else if (args[i] == "--config" && i + 1 < args.size())
      file = args[++i];
    else
      rest.push_back(args[i]);
  }
  if (file.empty()) return "";
  try {
    parseWords(app, rest);
  } catch (const CLI::Error&) {
    return "";
  }
  return checkValues(app) ? file : "";
}

Result<std::optional<int>> parseVerb(CLI::App& app, const Arguments& args) {
  if (const std::string flag = withoutValue(app, args); !flag.empty())
    return usageError("{0}= has no value; see {1} --help", flag, app.get_name());
  auto wrong = [&](const std::string& why) {
    fmt::print(stderr, "{0}: error: {1}; see {0} --help\n", app.get_name(), why);
    return std::optional<int>(exitUsage);
  };
  try {
    parseWords(app, args);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", helpOf(app));
    return std::optional<int>(exitOk);
  } catch (const CLI::ExtrasError&) {  // CLI11 lists the arguments from last to first
    const std::vector<std::string> extra = app.remaining();
    return wrong(unknownFlag(app, args).value_or(fmt::format("The following argument{} not expected: {}",
                                                             extra.size() == 1 ? " was" : "s were",
                                                             fmt::join(extra, " "))));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string twice = givenTwice(app, args);
    return wrong(twice.empty() ? error.what() : twice + " is given more than once");
  } catch (const CLI::FileError& error) {  // CLI11 does not say why it cannot read the file
    auto text = readInput(app.get_config_ptr()->as<std::string>());
    return text ? fail(error.what()) : text.takeError();
  } catch (const CLI::ParseError& error) {
    const std::string why = whyWrong(app, error);
    if (const std::string file = faultyConfig(app, args); !file.empty())
      return fail(why.starts_with(file) ? why : fmt::format("{}: {}", file, why));
    return wrong(why);
  }
  if (auto good = checkValues(app); !good) {
    const std::string file = faultyConfig(app, args);
    return file.empty() ? withCode(exitUsage, good.takeError())
                        : fail("{}: {}", file, good.error().message());
  }
  return std::optional<int>();
}

}  // namespace tg
