// SPDX-License-Identifier: Apache-2.0
// The source of the inputs of training and evaluation steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/result.h"
#include "runtime/data/text_data.h"
#include "runtime/runner.h"

namespace tg {

struct FeedOptions {
  std::string train;       ///< bindings for @train's inputs
  std::string val;         ///< the same for @eval's; "" for none
  double valFraction = 0;  ///< fraction of the training rows to keep for evaluation; needs val == ""
  uint64_t seed = 0;       ///< for the shuffling and the split
  bool shuffle = true;     ///< false: rows in file order, epoch after epoch
  bool evalOnly = false;   ///< the feed has no training steps; `train` is opened for its split alone
  bool oneBatch = false;   ///< every training step takes the batch of step 1, also on several ranks
  std::optional<Vocabulary> vocabulary;  ///< a resumed run's vocabulary; a text must fit it
};

/// Batches of inputs, for training and for evaluation. Const members are thread-safe.
class Batches {
 public:
  virtual ~Batches() = default;
  /// The inputs of training step `step`, which counts from 1. May reuse the memory of `used`, an earlier batch, since the
  /// system clears fresh memory of large arrays.
  virtual Result<Inputs> batch(int64_t step, Inputs used = {}) const = 0;
  /// The number of items in a batch, and their unit: "tok" or "rows".
  virtual int64_t itemsPerStep() const = 0;
  virtual std::string unit() const = 0;
  /// The number of evaluation batches; 0 if there are none. `evalBatch` takes 0 … evalBatches() - 1.
  virtual int64_t evalBatches() const = 0;
  virtual Result<Inputs> evalBatch(int64_t index, Inputs used = {}) const = 0;
  /// The first input of a training step that is infinite or NaN, with the row of its file: `x is nan in row 17 of
  /// x.npy`. "" if all are finite.
  virtual std::string notFinite(int64_t /*step*/) const { return ""; }
  /// The vocabulary of the ids, or null.
  virtual const Vocabulary* vocabulary() const { return nullptr; };
  /// A line of text for each source.
  virtual std::vector<std::string> describe() const = 0;
};

/// The inputs of every step. They are pure functions of (seed, step): any batch can be made without the earlier ones,
/// so a resumed run needs only its step as a data position.
class Feed : public Batches {
 public:
  /// The number of steps in which every row is drawn `epochs` times, except for those that do not fill a batch; 0 if
  /// there is no such number (random numbers, constants).
  virtual int64_t stepsIn(int64_t epochs) const = 0;
  /// A hash of names, shapes, sizes and bytes, including those of evaluation data. (Large files are sampled, and their
  /// modification times are added.) If it differs, a resumed run would not continue as if it had never stopped.
  virtual std::string fingerprint() const = 0;
  /// The same of evaluation data alone; none if there is none, or if it is a part of the training data.
  virtual std::optional<std::string> evalFingerprint() const { return {}; }
};

/// Checks the syntax of the bindings in FeedOptions. openFeed later checks whether the files exist and fit.
Result<void> checkBindings(const std::string& text);

/// Opens the data for a function's inputs other than host scalars. `train` and `val` each have one of these forms:
///   text:FILE             the bytes as i32 ids; the function takes two i32 [B, T] inputs: windows, and the same
///                         windows shifted by one
///   tokens:a.bin,b*.bin   the same for llm.c's token files
///   x=@x.npy,y=@y.npz:k   rows drawn for each step, the same ones from every file; sources are those of
///                         parseInputSpec; a source that is not a file is the same in every step
/// Rows are shuffled in each epoch. Windows are drawn at random, or in order without shuffling. `eval` is the
/// evaluation function, or null if there is none. It has no batches without `val` and `valFraction`. Everything is
/// checked here: an input without data or with two sources, a wrong type, too few rows, ids that are invalid for the
/// function's tables. Errors of evaluation start with "evaluation: ".
Result<std::unique_ptr<Feed>> openFeed(const FeedOptions& options, const Item& train, const Item* eval);

/// Whether a source of data is a text, whose characters become ids.
bool isText(const std::string& source);

/// Opens `val` alone, with all its rows in order, for the evaluation function. A text uses the vocabulary of the
/// options, or else its own. Training data and the fraction are ignored; `batch` is an error.
Result<std::unique_ptr<Feed>> openEvalFeed(const FeedOptions& options, const Item& eval);

/// The size of the smallest table that an integer argument indexes, in a function of stage tensor; 0 if none is seen.
int64_t idLimit(const Item& func, const Value* argument);
/// The index of the first of `ids` (integers) that is invalid for something that the argument indexes, or
/// ids.elements().
int64_t foreignId(const Item& func, const Value& arg, const HostArray& ids);

/// Whether a fingerprint was computed by this program's method, so that a difference means different data.
bool comparableData(std::string_view fingerprint);

/// In step s, rank r of N takes the batch that a single rank takes in step (s - 1)·N + r + 1. So in one step N ranks
/// see what a single rank sees in N steps, as with append-grad{accumulate=N}. If `split`, which must divide N, is above
/// 1, that many ranks share a batch and each takes its part of the rows of @train in `source`; N / split then replaces
/// N above. Evaluation data is that of a single rank.
std::unique_ptr<Feed> rankFeed(std::unique_ptr<Feed> whole, int rank, int ranks, int64_t split,
                               const Module& source);

/// A value for one argument: normal floats, or ids that are valid for the tables they index, if the function is of
/// stage tensor.
Result<HostArray> randomInput(const Item& func, const Value& argument, uint64_t seed);

/// Inputs for all arguments except host scalars, which the session fills in. They are the same in every run: normal
/// floats, and ids that are valid for the tables they index if the function is of stage tensor.
Result<Inputs> randomInputs(const Item& func);

}  // namespace tg
