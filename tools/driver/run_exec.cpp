// SPDX-License-Identifier: Apache-2.0
// tg-run exec: calls a function once.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/file_io.h"
#include "ir/text.h"
#include "runtime/batch.h"
#include "runtime/data/npy.h"
#include "runtime/data/spec.h"
#include "runtime/train/feed.h"
#include "tools/driver/io.h"
#include "tools/driver/run_setup.h"

namespace tg {

namespace {

namespace fs = std::filesystem;

// The most elements to print for a person; --output writes all.
constexpr int64_t kPrintedElements = 1000;

struct ExecFlags {
  std::string entry;
  std::vector<std::string> inputs, outputs, expected, captures;
  double rtol = 1e-4, atol = 1e-6;
};

std::string number(const HostArray& array, int64_t index) {
  if (array.dtype == DType::f32) return formatF32(array.at(index));
  return isFloat(array.dtype) ? formatReal(array.at(index)) : fmt::format("{}", array.at(index));
}

/// A line such as `name=2x2xf32=[1.0,2.0,3.0,4.0]`, which --input and --expected-output accept.
std::string asSpec(const std::string& name, const HostArray& array) {
  std::string shape = array.shape.str();
  std::string text = fmt::format("{}={}{}{}=", name, shape, shape.empty() ? "" : "x", tg::name(array.dtype));
  int64_t shown = std::min(array.elements(), kPrintedElements);
  if (array.shape.rank() == 0) return text + number(array, 0);
  text += '[';
  for (int64_t i = 0; i < shown; ++i) text += (i ? "," : "") + number(array, i);
  return text + (shown < array.elements() ? fmt::format(",… {} more]", array.elements() - shown) : "]");
}

/// The function to call: that of this name, the only one, or @predict.
Result<const Item*> entryOf(const Module& module, const std::string& name) {
  std::vector<Item*> funcs = module.all(ItemKind::func);
  if (name.empty() && funcs.size() == 1) return funcs.front();
  const Item* found = module.func(name.empty() ? "predict" : name);
  if (found) return found;
  if (funcs.empty()) return fail("the module has no function");
  if (name.empty()) return fail("choose a function with --entry=NAME: the module has {}", namesOf(funcs));
  return fail("there is no function @{}; the module has {}", name, namesOf(funcs));
}

/// The inputs, perhaps with another batch size than the function's. Inputs whose text gives no batch size use that of
/// the others.
Result<Inputs> inputsOf(const Item& func, const std::vector<std::string>& specs) {
  std::vector<std::pair<const Value*, OpenInput>> opened;
  std::optional<Shape> batched;  // shape of the first input with another batch size
  const Value* like = nullptr;
  for (const std::string& text : specs) {
    TG_TRY(auto spec, parseInputSpec(text));
    const Value* arg = func.arg(spec.first);
    if (!arg)
      return fail("@{} has no input '{}'; it has {}", func.name, spec.first,
                  func.body.args.empty() ? "none" : listText(func.body.args, &Value::name));
    TG_TRY(OpenInput input, openInput(std::move(spec.second), arg->name));
    const std::optional<Shape> own = input.shape();
    opened.emplace_back(arg, std::move(input));
    if (like || !own || withBatchOf(*arg, *own) == arg->type) continue;
    batched = withBatchOf(*arg, *own).shape;
    like = arg;
  }
  Inputs inputs;
  for (const auto& [arg, input] : opened) {
    Type type = arg->type;
    if (const std::optional<Shape> own = input.shape())
      type = withBatchOf(*arg, *own);
    else if (const int axis = batchAxis(*arg); axis >= 0 && like)
      type.shape[axis] = (*batched)[batchAxis(*like)];
    TG_TRY(HostArray value, load(input, type, arg->name));
    inputs.emplace(arg->name, std::move(value));
  }
  return inputs;
}

/// Names the inputs with ids outside of their table, for which the ops give zeros.
void noteForeignIds(const Item& func, const Inputs& inputs) {
  for (const auto& arg : func.body.args) {
    const int64_t limit = idLimit(func, arg.get());
    const auto ids = inputs.find(arg->name);
    if (limit == 0 || ids == inputs.end()) continue;
    const int64_t foreign = foreignId(func, *arg, ids->second);
    if (foreign < ids->second.elements())
      fmt::print(stderr, "note: input '{0}' holds the id {1}, but %{0} indexes {2}: such ids read zeros\n",
                 arg->name, ids->second.at(foreign), countText(limit, "row"));
  }
}

Result<void> checkAllGiven(const Item& func, const Inputs& inputs) {
  for (const auto& arg : func.body.args)
    if (!inputs.contains(arg->name) && !find(arg->attrs, "host"))
      return fail(
          "input '{0}' of type {1} is missing: give --input={0}=SPEC, such as {0}=@{0}.npy or {0}=rand(0)",
          arg->name, arg->type.str());
  return {};
}

/// "" if all elements agree, reals within the tolerances; otherwise the first and the worst difference.
std::string difference(const std::string& name, const HostArray& got, const HostArray& expected,
                       const ExecFlags& flags) {
  int64_t wrong = 0, first = 0, worst = 0;
  double largest = -1;
  const bool exact = !isFloat(got.dtype);
  for (int64_t i = 0; i < got.elements(); ++i) {
    double a = got.at(i), b = expected.at(i), apart = std::fabs(a - b);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    // A relative tolerance is meaningless for infinite values, and for ids.
    if (!exact && std::isfinite(b) && apart <= flags.atol + flags.rtol * std::fabs(b)) continue;
    if (wrong++ == 0) first = i;
    if (std::isnan(apart)) apart = std::numeric_limits<double>::infinity();
    if (apart > largest) largest = apart, worst = i;
  }
  if (!wrong) return "";
  auto pair = [&](int64_t i) {
    return fmt::format("[{}] is {}, expected {}", i, number(got, i), number(expected, i));
  };
  const std::string within = exact ? "" : fmt::format(" (rtol {}, atol {})", flags.rtol, flags.atol);
  return fmt::format("{}: {} of {}{}; first {}; worst {}", name, wrong,
                     countText(got.elements(), "element differs", "elements differ"), within, pair(first),
                     pair(worst));
}

/// The expected results, with the types that the called function has.
Result<NamedArrays> expectedOf(const Item& func, const ExecFlags& flags) {
  NamedArrays all;
  for (const std::string& text : flags.expected) {
    TG_TRY(auto spec, parseInputSpec(text, "result"));
    for (const auto& result : func.results) {
      if (result.name != spec.first) continue;
      auto value = load(spec.second, result.type, spec.first, "result");
      if (!value) return fail("--expected-output: " + value.error().message());
      all.emplace_back(spec.first, std::move(*value));
    }
  }
  return all;
}

std::string compare(const CallOutputs& outputs, const NamedArrays& all, const ExecFlags& flags) {
  std::string wrong;
  for (const auto& [name, expected] : all) {
    const std::string line = difference(name, *outputs.result(name), expected, flags);
    if (!line.empty()) wrong += (wrong.empty() ? "" : "\n  ") + line;
  }
  return wrong;
}

/// Splits a text such as `y=@y.npy` into name and file.
std::pair<std::string, std::string> outputOf(const std::string& text) {
  size_t equals = text.find("=@");
  if (equals == std::string::npos) return {};
  return {text.substr(0, equals), text.substr(equals + 2)};
}

bool beginsNpy(std::string_view bytes) { return bytes.starts_with("\x93NUMPY"); }

/// Checks the syntax of the outputs, and that they overwrite no other file.
Result<void> checkOutputs(const ExecFlags& flags, const ModelFlags& model) {
  std::vector<std::string> read = filesRead(model);
  std::vector<OutputFile> outputs = {{"--emit-module", model.emitModule}};
  for (const std::string& text : flags.inputs)
    if (auto spec = parseInputSpec(text); spec && spec->second.isFile()) read.push_back(spec->second.path);
  for (const std::string& text : flags.outputs) {
    auto [name, file] = outputOf(text);
    if (file.empty()) return fail("--output={}: give NAME=@FILE.npy", text);
    if (file == "-") continue;
    std::error_code error;
    if (!file.ends_with(".npy") && !fs::is_other(file, error))
      return fail("--output={}: a result is written as .npy, so its file's name ends so", text);
    TG_CHECK(mayReplace("--output", file, beginsNpy, read));
    outputs.push_back({"--output", file});
  }
  return notOneFile(outputs);
}

/// Checks that the function has the results that are to be written and compared.
Result<void> checkResults(const Item& func, const ExecFlags& flags) {
  auto check = [&](const char* flag, const std::string& name) -> Result<void> {
    for (const auto& result : func.results)
      if (result.name == name) return {};
    return fail("{} names '{}', which is not a result of @{}; it has {}", flag, name, func.name,
                listText(func.results, &NamedType::name));
  };
  for (const std::string& text : flags.outputs) TG_CHECK(check("--output", outputOf(text).first));
  for (const std::string& text : flags.expected) {
    TG_TRY(auto spec, parseInputSpec(text, "result"));
    TG_CHECK(check("--expected-output", spec.first));
  }
  return {};
}

/// Checks that the function has the captures that are to be printed, after the passes of --pipeline.
Result<void> checkCaptures(const Item& func, const ExecFlags& flags) {
  std::vector<std::string> known;
  for (const Op* op : func.body.ops)
    if (op->code == Opcode::capture) known.push_back(op->word("name"));
  for (const std::string& name : flags.captures) {
    if (known.empty())
      return fail("--capture={}: @{} has no captures: mark the values to read with tg.capture", name,
                  func.name);
    if (name != "*" && !contains(known, name))
      return fail("--capture names '{}', which is not a capture of @{}; it has {}", name, func.name,
                  listText(known, std::identity()));
  }
  return {};
}

Result<void> write(const CallOutputs& outputs, const ExecFlags& flags) {
  for (const std::string& text : flags.outputs) {
    auto [name, file] = outputOf(text);
    const HostArray& value = *outputs.result(name);
    TG_CHECK(file == "-" ? writeOutput(file, std::string(asText(formatNpy(value)))) : writeNpy(file, value));
  }
  return {};
}

struct Exec : Verb {
  ModelFlags model;
  ExecFlags flags;

  void describe(CLI::App& app) override {
    app.description("Calls a function once and prints its results, in the form --input takes.");
    addModelFlags(app, model);
    addQuietFlag(app, model, "no notes on standard error");
    addValue(app, "--entry", "NAME", flags.entry, "the function (default: the only one, or predict)");
    addValue(app, "--input", "NAME=SPEC", flags.inputs,
             "an input: x=@x.npy, x=@d.npz:x, x=64x784xf32=0, x=[1,2], x=rand(7)");
    addValue(app, "--output", "NAME=@FILE.npy", flags.outputs,
             "write a result to a file instead of printing it; @- is standard output");
    addValue(app, "--capture", "NAME", flags.captures, "also print a captured value");
    addValue(app, "--expected-output", "NAME=SPEC", flags.expected,
             "compare a result with this; exit 3 if it differs");
    addNumber(app, "--rtol", flags.rtol, "relative tolerance of the comparison, for reals", atLeast(0));
    addNumber(app, "--atol", flags.atol, "absolute tolerance of the comparison, for reals", atLeast(0));
  }
  Result<int> run(CLI::App& app, const Arguments&) override {
    TG_CHECK(withCode(exitUsage, checkOutputs(flags, model)));
    TG_TRY(std::unique_ptr<Module> module, loadModule(app, model));
    const std::string wanted = flags.entry.starts_with('@') ? flags.entry.substr(1) : flags.entry;
    // The passes may add functions, inputs and results.
    std::unique_ptr<Module> written = clone(*module);
    TG_CHECK(runFirst(model.pipeline, module, toldOn(model)));
    model.ran = true;
    TG_TRY(const Item* entry, entryOf(*module, wanted));
    TG_CHECK(checkResults(*entry, flags));
    TG_TRY(Inputs inputs, inputsOf(*entry, flags.inputs));
    TG_CHECK(withCode(exitUsage, checkAllGiven(*entry, inputs)));
    std::string name = entry->name;
    if (const Item* own = written->func(name); own && model.notes) noteForeignIds(*own, inputs);
    InputViews shaped = inputs;
    TG_TRY(const auto size, batchOf(*entry, shaped));
    if (size && !hasBatch(*entry, *size)) {
      if (model.notes) fmt::print(stderr, "note: @{} is compiled for a batch of {}\n", name, *size);
      TG_CHECK(setBatch(name, *size, written));
      TG_CHECK(runFirst(model.pipeline, written, {}));
      module = std::move(written);
    }
    model.captures = flags.captures;
    model.states = true;
    TG_TRY(const OpenModel open, openModel(model, std::move(module), {name}));
    TG_CHECK(checkCaptures(*open.source->func(name), flags));
    TG_TRY(const auto expected, expectedOf(*open.source->func(name), flags));
    if (model.notes && !open.session->device())
      fmt::print(stderr, "note: running on the reference interpreter\n");
    TG_TRY(const CallOutputs outputs, withCode(open.session->device() ? exitDevice : exitInput,
                                               open.session->run(name, inputs, flags.captures)));
    // If a result is written as a file to standard output, print the others on standard error.
    const bool filed = std::ranges::any_of(
        flags.outputs, [](const std::string& output) { return outputOf(output).second == "-"; });
    std::FILE* lines = filed ? stderr : stdout;
    for (const auto& [result, value] : outputs.results) {
      bool written = false;
      for (const std::string& output : flags.outputs) written = written || output.starts_with(result + "=");
      if (!written) fmt::print(lines, "{}\n", asSpec(result, value));
    }
    for (const auto& [capture, value] : outputs.captures.read())
      fmt::print(lines, "{}\n", asSpec(capture, value));
    TG_CHECK(write(outputs, flags));
    const std::string wrong = compare(outputs, expected, flags);
    if (!wrong.empty()) return withCode(exitNumeric, fail(wrong));
    return exitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> makeExec() { return std::make_unique<Exec>(); }

}  // namespace tg
