// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/train_flags.h"

#include <charconv>
#include <cmath>

#include "ir/text.h"
#include "tools/driver/batch_parts.h"
#include "tools/driver/run_config.h"

namespace tg {

void addTrainFlags(CLI::App& app, TrainFlags& flags) {
  auto group = [&](const char* name) {
    return [&app, name](const char* flag, const char* value, auto& into, const char* help) {
      return addValue(app, flag, value, into, help)->group(name);
    };
  };
  auto data = group("Data and length"), length = group("Data and length"), look = group("Looking"),
       keep = group("Keeping"), learn = group("Learning");
  data("--data", "DATA", flags.data,
       "[train=|val=] text:FILE, tokens:FILE, or rows of files: 'x=@x.npy,y=@y.npy'");
  data("--val-fraction", "F", flags.valFraction, "fraction of the training rows kept for evaluation")
      ->check(between(0.0, 0.9));
  app.add_flag("--no-shuffle", flags.noShuffle, "read rows in the files' order")->group("Data and length");
  length("--steps", "N", flags.steps, "total steps, including those before --resume (default 100)")
      ->check(atLeast(1));
  length("--epochs", "N", flags.epochs, "passes over the rows instead of steps")
      ->check(atLeast(1))
      ->excludes("--steps");
  length("--max-time", "TIME", flags.maxTime, "save and end after this time, such as 90s, 10m or 2h");
  learn("--micro-batch", "N", flags.microBatch, kMicroBatchHelp)->check(atLeast(1));
  learn("--lr", "RATE", flags.lr, "learning rate: 1e-3, or 'warmup(100, cosine(1e-3, 0, 900))'");
  learn("--set", "NAME=SPEC", flags.set, "initial value of a parameter: w=@w.npy, b=0");
  learn("--init-from", "FILE", flags.initFrom,
        "initial parameters: a safetensors file, a run or a checkpoint")
      ->excludes("--weights");
  learn("--init-except", "NAMES", flags.initExcept,
        "parameters that it leaves as they begin, such as 'head.*'");
  learn("--on-nan", "stop|skip", flags.onNan,
        "at a loss or gradient that is not finite, stop the run or skip the batch")
      ->check(CLI::IsMember({"stop", "skip"}));
  app.add_flag("--overfit-one-batch", flags.overfitOneBatch, "use the first batch in every step")
      ->group("Learning");
  app.add_flag("--dry-run", flags.dryRun, "check everything, compile, and end before the first step")
      ->group("Learning")
      ->configurable(false);
  look("--log-every", "N", flags.logEvery, "steps between printed lines (default 10)")->check(atLeast(1));
  look("--eval-every", "N", flags.evalEvery, "steps between evaluations by @eval, besides one at the end")
      ->check(atLeast(1));
  look("--eval-batches", "N", flags.evalBatches, "batches of each evaluation (default: all)")
      ->check(atLeast(1));
  look("--sample-every", "N", flags.sampleEvery, "steps between texts by @predict, written to samples.jsonl")
      ->check(atLeast(1));
  look("--sample-prompt", "TEXT", flags.samplePrompt, "prompt of these texts (default: a line break)")
      ->needs("--sample-every");
  look("--sample-tokens", "N", flags.sampleTokens, "tokens to sample (default 200)")
      ->check(atLeast(1))
      ->needs("--sample-every");
  look("--metrics", "LIST", flags.metrics, "files of the run: jsonl,csv,tensorboard (default jsonl)");
  look("--progress", "HOW", flags.progress, "auto, bar, plain or none (default: a bar on terminals)")
      ->check(CLI::IsMember({"auto", "bar", "plain", "none"}));
  addRankFlags(app, flags.ranks, "Learning");
  keep("--run-dir", "DIR", flags.runDir,
       "the run's folder (default runs/MODEL-SEED, where MODEL is the file's name without extension); none: "
       "keep nothing");
  keep("--out", "FILE", flags.out, "also write the final parameters to this file (safetensors)");
  keep("--ckpt-every", "N|TIME", flags.ckptEvery, "save every N steps, or every 10m; and always at the end");
  keep("--keep-last", "N", flags.keepLast, "checkpoints to keep; 0: all (default 3)")->check(atLeast(0));
  app.add_flag("--keep-best", flags.keepBest, "also keep a checkpoint of the lowest evaluation loss")
      ->group("Keeping");
  keep("--resume", "RUN", flags.resume, "continue a run with its options: its folder, a checkpoint, or auto")
      ->configurable(false);
  app.set_config("--config", "", "read options from the config.toml of a run; flags override them")
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
    return fail("{} is '{}': expected a time such as 90s, 10m or 2h", flag, text);
  return value * scale;
}

Result<Interval> parseInterval(const std::string& flag, const std::string& text) {
  Interval out;
  auto wrong = [&] {
    return fail("{} is '{}': expected steps such as 500, or a time such as 90s, 10m or 2h", flag, text);
  };
  if (const auto steps = numberIn<double>(text)) {  // a plain number means steps, also if written as 1e3
    if (!(*steps >= 1 && *steps < 0x1p53) || *steps != std::floor(*steps)) return wrong();
    out.steps = static_cast<int64_t>(*steps);
    return out;
  }
  auto seconds = parseDuration(flag, text);
  if (!seconds) return wrong();
  out.seconds = *seconds;
  return out;
}

bool isForEvaluation(std::string_view data) { return data.starts_with("val="); }

Result<DataFlags> parseData(const std::vector<std::string>& data) {
  DataFlags out;
  for (const std::string& text : data) {
    const bool val = isForEvaluation(text);
    const std::string source = val ? text.substr(4) : text.starts_with("train=") ? text.substr(6) : text;
    if (source.empty()) return fail("--data={} names no source", text);
    std::string& role = val ? out.val : out.train;
    if (!role.empty())
      return fail("--data gives two sources for {}: '{}' and '{}'", val ? "evaluation" : "training", role,
                  source);
    role = source;
  }
  return out;
}

}  // namespace tg
