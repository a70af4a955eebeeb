// SPDX-License-Identifier: Apache-2.0
// A part of a feed: the batches of one function's inputs. Internal to runtime/train.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/data/data_file.h"
#include "runtime/data/table.h"
#include "runtime/train/feed.h"

namespace tg {

/// The batches of one function's inputs. `evalBatches` are those of the evaluation part, which are in order.
class Source : public Batches {
 public:
  /// The number of training steps in which every row is drawn once, except for those that do not fill a batch; 0 if
  /// there is no such number.
  virtual int64_t stepsPerEpoch() const = 0;
  /// Reads the data. An error if a file was truncated meanwhile.
  virtual Result<std::string> fingerprint() const = 0;
};

struct SourceOptions {
  std::string bindings;
  uint64_t seed = 0;
  bool shuffle = true;
  double heldOut = 0;       ///< fraction of the data that is not in the training part
  bool evaluates = false;   ///< batches of the evaluation part are needed, otherwise of the training part
  bool extraNames = false;  ///< bindings may name inputs that the function lacks
  std::optional<Vocabulary> vocabulary;
  std::map<std::string, Table>* opened = nullptr;  ///< open files by binding, so that none is held twice
};

/// The number of rows or tokens, of `total`, to keep for evaluation: at least one, but never all.
int64_t heldOutOf(int64_t total, double fraction);

/// Splits a text such as `x=@a,b.npy,y=[1,2]` at the commas that `NAME=` follows; others belong to a file's name or a list.
std::vector<std::string> splitBindings(const std::string& text);
Result<std::unique_ptr<Source>> openColumns(const SourceOptions& options, const Item& func);
Result<std::unique_ptr<Source>> openText(const SourceOptions& options, const Item& func,
                                         const std::string& path);
Result<std::unique_ptr<Source>> openTokens(const SourceOptions& options, const Item& func,
                                           const std::string& paths);

/// The arguments that are filled from data.
std::vector<const Value*> dataArguments(const Item& func);

/// A hash of names, shapes, sizes and bytes; each is combined with the hash so far.
class Fingerprint {
 public:
  void add(std::string_view text);
  /// Adds the size, and the bytes that `read` gives. Of more than 256 MiB, only 256 MiB in blocks spread over the file
  /// are added, and the modification time of `path`, since a change may lie between the blocks.
  Result<void> addBytes(size_t size, const ReadBytes& read, const std::string& path);
  /// 16 hex digits after the number of the method, which `comparableData` checks.
  std::string str() const;

 private:
  uint64_t digest_ = 0;
};

}  // namespace tg
