// SPDX-License-Identifier: Apache-2.0
// Where the inputs of training and evaluation steps come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/data/text_data.h"
#include "runtime/runner.h"

namespace tg {

struct FeedOptions {
  std::string train;                     ///< bindings of @train's inputs
  std::string val;                       ///< the same for @eval's; "" is none
  double valFraction = 0;                ///< of the training rows kept for evaluation; needs val == ""
  uint64_t seed = 0;                     ///< of the shuffling and of the split
  bool shuffle = true;                   ///< false: rows in file order, epoch after epoch
  std::optional<Vocabulary> vocabulary;  ///< the one a resumed run was trained with; a text must fit it
};

/// Inputs of every step, pure functions of (seed, step): any batch is made without those before it, so a
/// resumed run needs no data position but its step. Const members may be called from several threads.
class Feed {
 public:
  virtual ~Feed() = default;
  /// The inputs of training step `step`, counted from 1.
  virtual Result<Inputs> batch(int64_t step) const = 0;
  /// Rows or tokens in a batch, and their unit: "tok" or "rows".
  virtual int64_t itemsPerStep() const = 0;
  virtual std::string unit() const = 0;
  /// Steps in which every row is drawn once, the rest that fills no batch left out; 0 where there is no such
  /// number (random numbers, constants).
  virtual int64_t stepsPerEpoch() const = 0;
  /// Batches of evaluation there are; 0 without any. `evalBatch` takes 0 … evalBatches() - 1.
  virtual int64_t evalBatches() const = 0;
  virtual Result<Inputs> evalBatch(int64_t index) const = 0;
  /// The first input of a training step that is infinite or no number, and the row of its file: `x is nan in
  /// row 17 of x.npy`. "" where all are finite.
  virtual std::string notFinite(int64_t /*step*/) const { return ""; }
  /// What the ids stand for, or null.
  virtual const Vocabulary* vocabulary() const = 0;
  /// A hash of names, shapes, sizes and bytes (of large files: samples, and when they were written), those
  /// for evaluation included: a resumed run whose data differs in it would not go on as if never stopped.
  virtual std::string fingerprint() const = 0;
  /// A line for each source, for people.
  virtual std::vector<std::string> describe() const = 0;
};

/// Opens the data for a function's inputs other than host scalars. `train` and `val` are each one of
///   text:FILE             bytes as i32 ids; the function takes two i32 [B, T] inputs: windows, and the same
///                         windows one later
///   tokens:a.bin,b*.bin   the same of llm.c's token files
///   x=@x.npy,y=@y.npz:k   rows drawn per step, the same ones of every file; sources as of parseInputSpec,
///   those
///                         that are no file the same for every step
/// Rows are shuffled each epoch; windows are drawn at random, in order without shuffling. `eval` is the
/// function that evaluates, or null when there is none; without `val` and `valFraction` there are no batches
/// for it. Everything is judged here: an input without data or with two sources, a wrong type, too few rows,
/// ids that the function's tables do not hold. Errors of evaluation start with "evaluation: ".
/// Whether the text of FeedOptions' bindings can be read. Whether what it names is there and fits is known when it is
/// opened.
Result<void> checkBindings(const std::string& text);

Result<std::unique_ptr<Feed>> openFeed(const FeedOptions& options, const Item& train, const Item* eval);

/// The rows of `val` alone, all of them in order, for the function that evaluates. A text takes the
/// vocabulary of the options, its own without one. Training data and the fraction are passed over; `batch` is
/// an error.
Result<std::unique_ptr<Feed>> openEvalFeed(const FeedOptions& options, const Item& eval);

/// The smallest table each integer argument of a function of stage tensor indexes, 0 where none is seen.
int64_t idLimit(const Item& func, const Value* argument);

/// Whether a fingerprint was made as those of this program are, so that a difference is one of the data.
bool comparableData(std::string_view fingerprint);

}  // namespace tg
