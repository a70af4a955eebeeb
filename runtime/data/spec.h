// SPDX-License-Identifier: Apache-2.0
// Input values as written on the command line.
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

/// The source of an input's value.
struct InputSpec {
  enum class Kind : uint8_t { npy, npz, idx, raw, fill, list, rand };
  Kind kind = Kind::fill;
  std::optional<Type> type;       ///< as written; files have none
  std::string path, key;          ///< of a file; for an npz, an empty key means the archive's only member
  FileType fileType{};            ///< raw
  Shape fileShape;                ///< raw; the first extent may be kDynamic
  std::optional<double> divisor;  ///< for a file: numbers are divided by it, and become f32
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
/// The type may be omitted, and is then the expected one. A leading `%` of a name is dropped. `kind` says
/// in errors what NAME is: an input, a parameter or a result.
Result<std::pair<std::string, InputSpec>> parseInputSpec(std::string_view text,
                                                         std::string_view kind = "input");

/// Opens the file of a source for which `isFile` holds.
Result<Table> openTable(const InputSpec& spec);

/// The table with elements as an input of `expected` takes them: integers and reals of any width, and reals that a
/// divisor makes. An error, which names both types, if they do not fit.
Result<Table> tableAs(const InputSpec& spec, const Table& table, const Type& expected);

/// A source with its file open, if it has one: a pipe can be opened only once.
struct OpenInput {
  InputSpec spec;
  std::optional<Table> table = {};

  /// The shape that the source itself determines: that of a file, of a written type, or of a list. None for a single
  /// value for all elements, and for random numbers.
  std::optional<Shape> shape() const;
};
Result<OpenInput> openInput(InputSpec spec, std::string_view name, std::string_view kind = "input");

/// The value of the input `name` of type `expected`; `kind` is the word for it in errors. Errors say what was given and
/// what was expected: another shape or dtype, a value that the dtype cannot hold, a list of another length. Element i
/// of a rand is a pure function of the seed and i.
Result<HostArray> load(const OpenInput& input, const Type& expected, std::string_view name,
                       std::string_view kind = "input");
Result<HostArray> load(const InputSpec& spec, const Type& expected, std::string_view name,
                       std::string_view kind = "input");

}  // namespace tg
