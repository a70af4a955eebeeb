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

namespace tg {

/// Where an input's value comes from.
struct InputSpec {
  enum class Kind : uint8_t { npy, npz, fill, list, rand };
  Kind kind = Kind::fill;
  std::optional<Type> type;      ///< as written; a file never has one
  std::string path, key;         ///< npy, npz; no key: the archive's only member
  std::vector<double> values;    ///< fill: one value; list: the elements in row-major order
  uint64_t seed = 0;             ///< rand
  std::optional<int32_t> below;  ///< rand: integers from 0 to below - 1
};

/// Reads `name=source`, where a source is one of
///   @x.npy   @data.npz:key   @data.npz          a file
///   64x784xf32=0   f32=3.5   0                  every element that value
///   2x2xf32=[1,2,3,4]   [1,2,3,4]               the elements in row-major order
///   4xi32=rand(3,10)   rand(3,10)               integers from 0 to 9, by seed 3
///   rand(7)                                     by seed 7: floats normal, integers 0 to 9, i1 0 or 1
/// A type may be left out; the one expected is used then. A name's leading `%` is dropped.
Result<std::pair<std::string, InputSpec>> parseInputSpec(std::string_view text);

/// The value for the input `name` of type `expected`. Another shape or dtype, a value that the
/// dtype cannot hold, or a list of another length is an error that names the input, what it got and
/// what was expected. Element i of a rand is a pure function of the seed and i.
Result<HostArray> load(const InputSpec& spec, const Type& expected, std::string_view name);

}  // namespace tg
