// SPDX-License-Identifier: Apache-2.0
// Passes and pipelines as a library: text both ways, verification around each pass,
// instrumentation hooks, failures that name the pass.
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

/// What a pass may tell the outside besides its error.
struct PassContext {
  DiagnosticHandler onDiagnostic;  ///< remarks and warnings; may be empty
  /// A part of the pass and the time it took; may be empty.
  std::function<void(std::string_view phase, double milliseconds)> onPhase = {};
  void phase(std::string_view name, double milliseconds) const {
    if (onPhase) onPhase(name, milliseconds);
  }
  void remark(const Loc& loc, std::string message) const {
    if (onDiagnostic) onDiagnostic({Severity::remark, loc, std::move(message), {}});
  }
};

// The passes themselves: `Result<void> runFuse`-like functions named run_<id>.
#define PASS(id, name, tool, from, to, library, Options, summary) \
  Result<void> run_##id(Module& module, const Options& options, const PassContext& context);
#include "passes/passes.def"
#undef PASS

/// One option of a pass, as text. `type` is bool, int, double or string.
struct OptionInfo {
  std::string name, type, fallback, help;
  std::string bare;  ///< of a string: what the name without a value stands for; "" wants a value
};

/// A pass with its options bound, ready to run. One that throws, or is empty, is a pass with a bug.
using PassFunction = std::function<Result<void>(Module&, const PassContext&)>;
/// Binds options; an error names the option and lists the known ones.
using PassFactory = std::function<Result<PassFunction>(const AttrList&)>;

/// A pass's card: what passes.def and its options struct say.
struct PassInfo {
  std::string name, tool;
  Stage from = Stage::tensor, to = Stage::tensor;
  std::string summary;
  std::vector<OptionInfo> options;
  /// Empty when the library that holds the pass is not part of this program.
  PassFactory make;
  /// A row of passes.def; false of a pass that registerPass added.
  bool shipped = false;
  /// Of an alias, as fuse: the passes it stands for, in order. A pass of its own has none.
  std::vector<const PassInfo*> parts = {};

  /// A pass from one stage to a later one takes every stage between as well: spirv-emit (planned to
  /// spirv) takes a kernel module.
  bool accepts(Stage stage) const { return stage == from || (from < stage && stage < to); }
  /// And may be told to stop at one between: spirv-emit{emit=kernel}.
  bool mayGive(Stage stage) const { return stage == to || (from < stage && stage < to); }
  const OptionInfo* option(std::string_view name) const;
  /// Whether the libraries that hold it are part of this program.
  bool isLinked() const;
  /// What a module that the pass breaks, or a crash in it, is: a bug in the compiler or in the user's pass.
  std::string_view fault() const;
};

/// All passes: the rows of passes.def in order, then registered ones. References into it stay valid.
const std::deque<PassInfo>& passes();
/// By name; `_` and `-` are the same. Null when unknown.
const PassInfo* findPass(std::string_view name);
/// Adds a pass of the caller's own; an error when the name is taken. Register before the first
/// pipeline is parsed: the registry has no lock.
Result<void> registerPass(PassInfo info);
/// Gives a row of passes.def whose library is linked apart its function.
void linkPass(std::string_view name, PassFactory make);

/// A text other than the module's own that a module can be written as, such as glsl.
struct Emitter {
  std::string name;
  std::function<Result<std::string>(const Module&)> emit;
};
const std::deque<Emitter>& emitters();
/// Replaces an emitter of the same name.
void registerEmitter(Emitter emitter);

/// The known name nearest to a misspelt one, or "" when none is near.
std::string nearestName(std::string_view name, const std::vector<std::string>& known);

/// One step of a pipeline: a pass and its options, each an Attr of the option's type.
struct PipelineStep {
  const PassInfo* pass = nullptr;
  AttrList options;
  const PassInfo* of = nullptr;  ///< the alias that the pass runs for, or null
};

/// Options as text, `lr=1e-3,clip-norm=1` or `{lr=1e-3 clip-norm=1}`; a bool alone means true. Values
/// run to the next comma, space or brace outside of quotes and brackets. Errors point into the text.
Result<AttrList> parsePassOptions(const PassInfo& pass, std::string_view text);
/// One value as the option's type.
Result<Attr> parsePassOption(const PassInfo& pass, const OptionInfo& option, std::string_view text);

/// Called around passes; `before` and `after` get the module as it is then. `after` is not called
/// for a pass that fails. `index` counts from 0. An alias has a call of its own around those of its passes,
/// which have its index and whose steps say what they are part `of`. `phase` is called for each part that a
/// pass tells of, whose time is in that of the whole, too.
struct Instrumentation {
  std::function<void(const PipelineStep&, int index, const Module&)> before;
  std::function<void(const PipelineStep&, int index, const Module&, double milliseconds)> after;
  std::function<void(const PipelineStep&, std::string_view name, double milliseconds)> phase = {};
};

/// What is checked after each pass. The input is verified in any case.
enum class VerifyEach : uint8_t {
  off,       ///< nothing: the passes are trusted
  on,        ///< the module is verified
  roundtrip  ///< and printed and parsed again; the next pass gets what was parsed
};

class PassManager {
 public:
  /// Parses `append-grad,append-adam{lr=1e-3},fuse`; an error points into the text and names the
  /// nearest pass or the known options. `builtin.module(…)` and `func.func(…)` around passes are
  /// accepted and dropped.
  static Result<PassManager> parse(std::string_view pipeline);
  PassManager& add(const PassInfo& pass, AttrList options = {});
  PassManager& instrument(Instrumentation hooks);
  PassManager& onDiagnostic(DiagnosticHandler handler);
  /// Where a reproducer is written when a pass breaks an invariant; "" writes none.
  PassManager& reproducer(std::string path);
  /// On by default, roundtrip in debug builds.
  PassManager& verifyEach(VerifyEach what);

  /// The pipeline as text, re-parsable: the options that differ from their defaults, or all.
  std::string str(bool defaults = false) const;
  const std::vector<PipelineStep>& steps() const { return steps_; }
  std::vector<PipelineStep>& steps() { return steps_; }
  /// Runs all passes, an alias as the passes it stands for. Options are bound before the first one runs.
  /// Before each, the module's stage must be the pass's; the module is verified before the first and, unless
  /// verifyEach is off, after each. On failure the module is left as the failing pass left it. A module that
  /// a pass breaks, or leaves without the functions it had, is that pass's bug and is called so, and so is an
  /// exception of a pass; sizes beyond the limits, and running out of memory, are the module's. Hooks and the
  /// diagnostic handler must not throw.
  Result<void> run(std::unique_ptr<Module>& module) const;

 private:
  /// A pass of a step, ready to run: the step's own, or one that its alias stands for.
  struct Bound {
    PipelineStep step;
    PassFunction run;
  };
  static Result<std::vector<Bound>> bind(const PipelineStep& step);
  Result<void> runStep(int index, const std::vector<Bound>& bound, std::unique_ptr<Module>& module) const;
  /// Returns the milliseconds that the pass took. `before`: the text of the module before the step.
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

/// The text of a reproducer: how to run it as a comment, then the module.
std::string reproducerText(const std::string& pipeline, const std::string& module);

/// Whether a name matches a pattern of literal characters, `*` and `?`; several patterns may be
/// joined by `|`.
bool globMatch(std::string_view pattern, std::string_view name);

}  // namespace tg
