// SPDX-License-Identifier: Apache-2.0
// What a feed is made of: the batches of one function's inputs. Internal to runtime/train.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/data/data_file.h"
#include "runtime/data/table.h"
#include "runtime/data/text_data.h"
#include "runtime/runner.h"

namespace tg {

/// The batches of one function's inputs.
class Source {
 public:
  virtual ~Source() = default;
  /// As of Feed, over the training part.
  virtual Result<Inputs> batch(int64_t step) const = 0;
  virtual std::string notFinite(int64_t /*step*/) const { return ""; }
  virtual int64_t itemsPerStep() const = 0;
  virtual std::string unit() const = 0;
  virtual int64_t stepsPerEpoch() const = 0;
  virtual const Vocabulary* vocabulary() const { return nullptr; }
  /// Reads the data: an error where a file was cut off meanwhile.
  virtual Result<std::string> fingerprint() const = 0;
  virtual std::vector<std::string> describe() const = 0;
  /// Whole batches of the evaluation part, in order.
  virtual int64_t evalBatches() const = 0;
  virtual Result<Inputs> evalBatch(int64_t index) const = 0;
};

struct SourceOptions {
  std::string bindings;
  uint64_t seed = 0;
  bool shuffle = true;
  double heldOut = 0;       ///< the fraction of the data that is no training part
  bool evaluates = false;   ///< batches of the evaluation part are wanted, of the training part otherwise
  bool extraNames = false;  ///< bindings may name inputs that the function lacks
  std::optional<Vocabulary> vocabulary;
  std::map<std::string, Table>* opened = nullptr;  ///< files by their bindings, so that none is held twice
};

/// How many of `total` rows or tokens are kept for evaluation: at least one, and never all.
int64_t heldOutOf(int64_t total, double fraction);

/// `x=@x.npy,y=[1,2]` at the commas outside of brackets.
std::vector<std::string> splitBindings(const std::string& text);
Result<std::unique_ptr<Source>> openColumns(const SourceOptions& options, const Item& func);
Result<std::unique_ptr<Source>> openText(const SourceOptions& options, const Item& func,
                                         const std::string& path);
Result<std::unique_ptr<Source>> openTokens(const SourceOptions& options, const Item& func,
                                           const std::string& paths);

/// The arguments that data feeds.
std::vector<const Value*> dataArguments(const Item& func);

/// The first of `ids`, integers, that something the argument indexes does not hold: its place, or ids.elements().
int64_t foreignId(const Item& func, const Value& arg, const HostArray& ids);

/// Digests of names, shapes, sizes and bytes, each over the one before.
class Fingerprint {
 public:
  void add(std::string_view text);
  /// The size and all bytes, `read` from the first on; of more than 256 MiB, as many in blocks from the first
  /// to the last byte, and the time at which `path` was written, since a change may lie between the blocks.
  Result<void> addBytes(size_t size, const ReadBytes& read, const std::string& path);
  /// 16 hex digits behind the number of the scheme, as `comparableData` tells.
  std::string str() const;

 private:
  uint64_t digest_ = 0;
};

}  // namespace tg
