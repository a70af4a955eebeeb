// Where the inputs of training steps come from.
#pragma once

#include <memory>
#include <string>

#include "ir/module.h"
#include "runtime/data/text_data.h"
#include "runtime/runner.h"

namespace tg {

/// Inputs for every step, a pure function of (seed, step).
class TrainData {
 public:
  virtual ~TrainData() = default;
  virtual Result<Inputs> batch(int64_t step) const = 0;
  /// Rows or tokens in a batch, and their unit: "tok" or "rows".
  virtual int64_t itemsPerStep() const = 0;
  virtual std::string unit() const = 0;
  /// What the ids stand for, or null.
  virtual const Vocabulary* vocabulary() const { return nullptr; }
};

/// Reads the data for a function's inputs other than host scalars. `text` is one of
///   text:FILE             bytes as i32 ids; the function takes two i32 [B, T] inputs: windows, and the same
///                         windows one later
///   x=@x.npy,y=@y.npz:k   rows drawn per step, the same ones of every file; other sources as for --input,
///                         the same for every step
/// An input without data, a wrong type and ids that the function's tables do not hold are errors.
Result<std::unique_ptr<TrainData>> openTrainData(const std::string& text, const Item& func, uint64_t seed);

/// The smallest table each i32 argument of a function of stage tensor indexes, 0 where none is seen.
int64_t idLimit(const Item& func, const Value* argument);

}  // namespace tg
