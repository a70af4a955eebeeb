// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/train_flags.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "tools/driver/run_config.h"
#include "tools/driver/step_parts.h"

namespace tg {

void addTrainFlags(CLI::App& app, TrainFlags& flags) {
  auto group = [&](const char* name) {
    return [&app, name](const char* flag, const char* value, auto& into, const char* help) {
      return app.add_option(flag, into, help)->option_text(value)->group(name);
    };
  };
  auto data = group("Data and length"), length = group("Data and length"), look = group("Looking"),
       keep = group("Keeping"), learn = group("Learning");
  data("--data", "DATA", flags.data,
       "[train=|val=] text:FILE, tokens:FILE, or rows of files: 'x=@x.npy,y=@y.npy'");
  data("--val-fraction", "F", flags.valFraction, "keep this part of the training rows for evaluation")
      ->check(between(0.0, 0.9));
  app.add_flag("--no-shuffle", flags.noShuffle, "rows in the order of the files")->group("Data and length");
  length("--steps", "N", flags.steps, "steps in all, those before --resume included (default 100)")
      ->check(atLeast(1));
  length("--epochs", "N", flags.epochs, "passes over the rows instead of steps")
      ->check(atLeast(1))
      ->excludes("--steps");
  length("--max-time", "TIME", flags.maxTime, "save and end after 90s, 10m, 2h");
  learn("--micro-batch", "N", flags.microBatch, kMicroBatchHelp)->check(atLeast(1));
  learn("--lr", "RATE", flags.lr, "instead of the module's: 1e-3, or 'warmup(100, cosine(1e-3, 0, 900))'");
  learn("--set", "NAME=SPEC", flags.set, "start a parameter from this: w=@w.npy, b=0");
  learn("--init-from", "FILE", flags.initFrom,
        "start from these parameters: safetensors, a run, a checkpoint")
      ->excludes("--weights");
  learn("--on-nan", "stop|skip", flags.onNan,
        "a step that is not finite ends the run, or its batch is left out")
      ->check(CLI::IsMember({"stop", "skip"}));
  app.add_flag("--overfit-one-batch", flags.overfitOneBatch, "the first batch in every step")
      ->group("Learning");
  app.add_flag("--dry-run", flags.dryRun, "check everything, compile, and end before the first step")
      ->group("Learning")
      ->configurable(false);
  look("--log-every", "N", flags.logEvery, "steps between lines (default 10)")->check(atLeast(1));
  look("--eval-every", "N", flags.evalEvery, "steps between evaluations of @eval; one at the end in any case")
      ->check(atLeast(1));
  look("--eval-batches", "N", flags.evalBatches, "batches of an evaluation (default all)")->check(atLeast(1));
  look("--sample-every", "N", flags.sampleEvery, "steps between texts by @predict, kept in samples.jsonl")
      ->check(atLeast(1));
  look("--sample-prompt", "TEXT", flags.samplePrompt, "what these go on from (default: a line break)");
  look("--sample-tokens", "N", flags.sampleTokens, "how many tokens are added (default 200)")
      ->check(atLeast(1));
  look("--metrics", "LIST", flags.metrics, "files of the run: jsonl,csv,tensorboard (default jsonl)");
  look("--progress", "HOW", flags.progress, "auto, bar, plain or none (default: a bar on terminals)")
      ->check(CLI::IsMember({"auto", "bar", "plain", "none"}));
  addRankFlags(app, flags.ranks, "Learning");
  keep("--run-dir", "DIR", flags.runDir,
       "the run's folder (default runs/MODEL-SEED, MODEL being the file's name without extension); none "
       "keeps nothing");
  keep("--out", "FILE", flags.out, "write the final parameters here too (safetensors)");
  keep("--ckpt-every", "N|TIME", flags.ckptEvery, "save every N steps, or every 10m; at the end in any case");
  keep("--keep-last", "N", flags.keepLast, "checkpoints kept, 0 is all (default 3)")->check(atLeast(0));
  app.add_flag("--keep-best", flags.keepBest, "save and keep the one with the least evaluation loss too")
      ->group("Keeping");
  keep("--resume", "RUN", flags.resume,
       "go on with a run, as it was started: its folder, a checkpoint, or auto")
      ->configurable(false);
  app.set_config("--config", "", "read options from the config.toml of a run; flags win")
      ->option_text("FILE")
      ->group("Keeping")
      ->configurable(false);
  useRunConfig(app);
}

Result<double> parseDuration(const std::string& flag, const std::string& text) {
  double value = 0;
  const char *begin = text.data(), *end = begin + text.size();
  auto [at, status] = std::from_chars(begin, end, value);
  std::string_view unit(at, static_cast<size_t>(end - at));
  double scale = unit.empty() || unit == "s" ? 1
                 : unit == "m"               ? 60
                 : unit == "h"               ? 3600
                 : unit == "d"               ? 86400
                                             : 0;
  if (status != std::errc() || scale == 0 || !(value > 0) || !std::isfinite(value))
    return fail(fmt::format("{} is '{}': expected a time such as 90s, 10m or 2h", flag, text));
  return value * scale;
}

Result<Interval> parseInterval(const std::string& flag, const std::string& text) {
  Interval out;
  double steps = 0;
  const char *begin = text.data(), *end = begin + text.size();
  auto [at, status] = std::from_chars(begin, end, steps);
  auto wrong = [&] {
    return fail(
        fmt::format("{} is '{}': expected steps such as 500, or a time such as 90s, 10m or 2h", flag, text));
  };
  if (status != std::errc()) return wrong();
  if (at == end) {  // a plain number means steps, also if written as 1e3
    if (!(steps >= 1 && steps < 0x1p53) || steps != std::floor(steps)) return wrong();
    out.steps = static_cast<int64_t>(steps);
    return out;
  }
  auto seconds = parseDuration(flag, text);
  if (!seconds) return wrong();
  out.seconds = *seconds;
  return out;
}

Result<DataFlags> parseData(const std::vector<std::string>& data) {
  DataFlags out;
  for (const std::string& text : data) {
    bool val = text.starts_with("val=");
    std::string& role = val ? out.val : out.train;
    if (!role.empty())
      return fail(fmt::format("--data says two sources for {}: '{}' and '{}'",
                              val ? "evaluation" : "training", role,
                              text.starts_with("train=") ? text.substr(6)
                              : val                      ? text.substr(4)
                                                         : text));
    role = text.starts_with("train=") ? text.substr(6) : val ? text.substr(4) : text;
  }
  return out;
}

}  // namespace tg
