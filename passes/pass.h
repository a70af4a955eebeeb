// SPDX-License-Identifier: Apache-2.0
// Passes and pipelines: conversion from and to text, verification around each pass, hooks for instrumentation, and errors
// that name the pass.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "passes/options.h"

namespace tg {

/// Callbacks by which a pass reports more than its error.
struct PassContext {
  DiagnosticHandler onDiagnostic;  ///< remarks and warnings; may be empty
  /// Called with a part of the pass and the time it took; may be empty.
  std::function<void(std::string_view phase, double milliseconds)> onPhase = {};
  void phase(std::string_view name, double milliseconds) const {
    if (onPhase) onPhase(name, milliseconds);
  }
  template <class... Args>
  void remark(const Loc& loc, fmt::format_string<Args...> format, Args&&... args) const {
    if (onDiagnostic)
      onDiagnostic({Severity::remark, loc, fmt::format(format, std::forward<Args>(args)...), {}});
  }
};

/// An error of a pass for one of the constraints in its documentation: `append-sgd [append-sgd.c3]: …`
template <class... Args>
Error passError(std::string_view pass, const Loc& loc, int constraint, fmt::format_string<Args...> format,
                Args&&... args) {
  return failAt(loc, "{0} [{0}.c{1}]: {2}", pass, constraint,
                fmt::format(format, std::forward<Args>(args)...));
}

// The passes themselves: `Result<void> run_ID(module, options, context)` for each row of passes.def.
#define PASS(id, name, tool, from, to, library, Options, summary) \
  Result<void> run_##id(Module& module, const Options& options, const PassContext& context);
#include "passes/passes.def"

/// One option of a pass, as text. `type` is bool, int, double or string.
struct OptionInfo {
  std::string name, type, fallback, help;
  std::string bare;  ///< for a string: the value that the name alone stands for; "" if a value must follow
};

/// A pass with its options bound, ready to run. A function that throws, or is empty, is a bug of the pass.
using PassFunction = std::function<Result<void>(Module&, const PassContext&)>;
/// Binds options; the error names an unknown option and lists the known ones.
using PassFactory = std::function<Result<PassFunction>(const AttrList&)>;

/// The description of a pass, from passes.def and its options struct.
struct PassInfo {
  std::string name, tool;
  Stage from = Stage::tensor, to = Stage::tensor;
  std::string summary;
  std::vector<OptionInfo> options;
  /// Empty when the library that holds the pass is not part of this program.
  PassFactory make;
  /// Whether it is a row of passes.def; false for passes that registerPass added.
  bool shipped = false;
  /// For an alias such as fuse: the passes it stands for, in order. Empty for a pass.
  std::vector<const PassInfo*> parts = {};

  /// A pass from one stage to a later one also accepts every stage between: spirv-emit (planned to spirv) accepts a module
  /// of stage kernel.
  bool accepts(Stage stage) const { return stage == from || (from < stage && stage < to); }
  /// It may also stop at a stage between: spirv-emit{emit=kernel}.
  bool mayGive(Stage stage) const { return stage == to || (from < stage && stage < to); }
  const OptionInfo* option(std::string_view name) const;
  /// Whether the libraries that hold it are linked into this program.
  bool isLinked() const;
  /// Text that says whose bug it is if the pass makes an invalid module or crashes: the compiler's, or the user's pass.
  std::string_view fault() const;
};

/// All passes: the rows of passes.def in order, then registered ones. References into it stay valid.
const std::deque<PassInfo>& passes();
/// By name; `_` and `-` are the same. Null when unknown.
const PassInfo* findPass(std::string_view name);
/// Adds a pass of the caller's own; an error if the name is taken. Register passes before the first pipeline is parsed: the
/// registry has no lock.
Result<void> registerPass(PassInfo info);
/// Sets the function of a row of passes.def whose library is linked separately.
void linkPass(std::string_view name, PassFactory make);

/// A text format other than the module's own, such as glsl, that a module can be written in.
struct Emitter {
  std::string name;
  std::function<Result<std::string>(const Module&)> emit;
};
const std::deque<Emitter>& emitters();
/// Replaces an emitter of the same name.
void registerEmitter(Emitter emitter);

/// One step of a pipeline: a pass and its options, each an Attr of the option's type.
struct PipelineStep {
  const PassInfo* pass = nullptr;
  AttrList options;
  const PassInfo* of = nullptr;  ///< the alias for which the pass runs, or null
};

/// Options as text, `lr=1e-3,clip-norm=1` or `{lr=1e-3 clip-norm=1}`; a bool alone means true. Values
/// run to the next comma, space or brace outside of quotes and brackets. Errors point into the text.
Result<AttrList> parsePassOptions(const PassInfo& pass, std::string_view text);
/// One value as the option's type.
Result<Attr> parsePassOption(const PassInfo& pass, const OptionInfo& option, std::string_view text);

/// Hooks around passes. `before` and `after` get the module as it is then; `after` is not called if the pass fails. `index`
/// is the number of the step, from 0. An alias has its own calls around those of its passes, which have the same index and
/// whose steps name the alias in `of`. `phase` is called for each part that a pass reports; its time is part of the whole.
/// `check` judges the module behind each pass, not behind an alias, once it is verified; its error is reported as a bug of
/// the pass.
struct Instrumentation {
  std::function<void(const PipelineStep&, int index, const Module&)> before;
  std::function<void(const PipelineStep&, int index, const Module&, double milliseconds)> after;
  std::function<void(const PipelineStep&, std::string_view name, double milliseconds)> phase = {};
  std::function<Result<void>(const PipelineStep&, const Module&)> check = {};
};

/// What is checked after each pass. The input of a pipeline is always verified.
enum class VerifyEach : uint8_t {
  off,       ///< nothing: the passes are trusted
  on,        ///< the module is verified
  roundtrip  ///< it is also printed and parsed again, and the next pass gets the parsed module
};

class PassManager {
 public:
  /// Parses `append-grad,append-adam{lr=1e-3},fuse`. An error points into the text and names the nearest pass or the known
  /// options. `builtin.module(…)` and `func.func(…)` around passes are accepted and ignored.
  static Result<PassManager> parse(std::string_view pipeline);
  PassManager& add(const PassInfo& pass, AttrList options = {});
  PassManager& instrument(Instrumentation hooks);
  PassManager& onDiagnostic(DiagnosticHandler handler);
  /// The file for a reproducer, written when a pass makes an invalid module or throws; "" writes none.
  PassManager& reproducer(std::string path);
  /// On by default, roundtrip in debug builds.
  PassManager& verifyEach(VerifyEach what);

  /// The pipeline as text that can be parsed again: only options that differ from their defaults, or all.
  std::string str(bool defaults = false) const;
  const std::vector<PipelineStep>& steps() const { return steps_; }
  std::vector<PipelineStep>& steps() { return steps_; }
  /// Runs all passes; an alias runs the passes it stands for. All options are bound before the first pass runs. A pass must
  /// accept the module's stage. The module is verified before the first pass and, unless verifyEach is off, after each. On
  /// failure the module is left as the failing pass left it. A pass that makes an invalid module, removes all functions,
  /// fails a hook's check or throws is reported as having a bug; sizes beyond the limits, and running out of memory, are
  /// reported as errors of the module. Hooks and the diagnostic handler must not throw.
  Result<void> run(std::unique_ptr<Module>& module) const;

 private:
  /// A pass that is ready to run: the step's own, or one that its alias stands for.
  struct Bound {
    PipelineStep step;
    PassFunction run;
  };
  static Result<std::vector<Bound>> bind(const PipelineStep& step);
  Result<void> runStep(int index, const std::vector<Bound>& bound, std::unique_ptr<Module>& module) const;
  /// Runs one pass; returns the milliseconds it took. `before`: the text of the module before the step.
  Result<double> runPass(int index, const Bound& bound, const std::string& before,
                         std::unique_ptr<Module>& module) const;
  std::string strFrom(int first, bool defaults) const;
  std::string writeReproducer(int index, const std::string& before) const;

  std::vector<PipelineStep> steps_;
  std::vector<Instrumentation> hooks_;
  DiagnosticHandler handler_;
  std::string reproducer_;
#ifdef NDEBUG
  VerifyEach verifyEach_ = VerifyEach::on;
#else
  VerifyEach verifyEach_ = VerifyEach::roundtrip;
#endif
};

/// The text of a reproducer: a comment that says how to run it, then the module.
std::string reproducerText(const std::string& pipeline, const std::string& module);

/// Whether a name matches a pattern of literal characters, `*` and `?`; several patterns may be
/// joined by `|`.
bool globMatch(std::string_view pattern, std::string_view name);

}  // namespace tg
