// SPDX-License-Identifier: Apache-2.0
// Input values as the command line spells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/result.h"
#include "runtime/data/array.h"
#include "runtime/data/table.h"

namespace tg {

/// Where an input's value comes from.
struct InputSpec {
  enum class Kind : uint8_t { npy, npz, idx, raw, fill, list, rand };
  Kind kind = Kind::fill;
  std::optional<Type> type;       ///< as written; a file never has one
  std::string path, key;          ///< of a file; npz without a key: the archive's only member
  FileType fileType{};            ///< raw
  Shape fileShape;                ///< raw; the first extent may be kDynamic
  std::optional<double> divisor;  ///< of a file: its numbers divided by this, as f32
  std::vector<double> values;     ///< fill: one value; list: the elements in row-major order
  uint64_t seed = 0;              ///< rand
  std::optional<int32_t> below;   ///< rand: integers from 0 to below - 1

  bool isFile() const { return kind <= Kind::raw; }
};

/// Reads `name=source`, where a source is one of
///   @x.npy   @data.npz:key   @data.npz          a file
///   @train-images-idx3-ubyte.gz                 IDX, packed by gzip or not: `idx` is in the file's name
///   ?x784xf32=@x.bin   60000x784xu8=@x.bin      little-endian elements alone; '?' is as many as there are
///   @images-idx3-ubyte/255                      any of these files, its numbers divided, as f32
///   64x784xf32=0   f32=3.5   0                  every element that value
///   2x2xf32=[1,2,3,4]   [1,2,3,4]               the elements in row-major order
///   4xi32=rand(3,10)   rand(3,10)               integers from 0 to 9, by seed 3
///   rand(7)                                     by seed 7: floats normal, integers 0 to 9, i1 0 or 1
/// A type may be left out; the one expected is used then. A name's leading `%` is dropped.
Result<std::pair<std::string, InputSpec>> parseInputSpec(std::string_view text);

/// The file of a source that `isFile`.
Result<Table> openTable(const InputSpec& spec);

/// Whether the elements of a file feed an input of `expected`: the same type (narrow and 64-bit integers are
/// i32, f64 and bf16 are f32, f16 is f32 and f16), or f32 by a divisor. The error names both types.
Result<void> checkElements(const InputSpec& spec, const Table& table, const Type& expected);
/// Elements taken from a file, as an input's: divided, or of another float type. Asks `checkElements` first.
HostArray asElements(const InputSpec& spec, HostArray array, DType expected);

/// A source whose file is open, if it has one: what is a pipe can be opened once.
struct OpenInput {
  InputSpec spec;
  std::optional<Table> table = {};

  /// The extents that the source has by itself: those of a file or of a spelled type, or the length of a list. None
  /// of one value for all elements and of random numbers.
  std::optional<Shape> shape() const;
};
Result<OpenInput> openInput(InputSpec spec, std::string_view name, std::string_view kind = "input");

/// The value for the input `name` of type `expected`, or for what else `kind` says it is. Another shape or dtype, a
/// value that the dtype cannot hold, or a list of another length is an error that names it, what it got and what was
/// expected. Element i of a rand is a pure function of the seed and i.
Result<HostArray> load(const OpenInput& input, const Type& expected, std::string_view name,
                       std::string_view kind = "input");
Result<HostArray> load(const InputSpec& spec, const Type& expected, std::string_view name,
                       std::string_view kind = "input");

}  // namespace tg
