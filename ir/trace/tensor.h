// SPDX-License-Identifier: Apache-2.0
// The values that models compute with: Tensor, and the types that functions of the front end accept in its place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/location.h"
#include "ir/result.h"
#include "ir/trace/site.h"
#include "ir/type.h"

namespace tg {
struct Value;
}

namespace tg::nn {

class Param;
class Recorder;

/// A value of the function that is being traced: an opaque handle, cheap to copy. An operation that fails gives an
/// invalid one. Everything computed from that is invalid too, without further errors, and trace() returns the first
/// error.
class Tensor {
 public:
  Tensor() = default;

  bool valid() const { return value_ != nullptr; }
  /// For an invalid tensor: kMaxRank extents of 1, so that arithmetic on extents in the model does not fail.
  const Shape& shape() const;
  int rank() const { return shape().rank(); }
  DType dtype() const { return type_.dtype; }
  /// Where in the model's source the value was computed.
  const Loc& loc() const { return loc_; }
  /// Why the tensor is invalid; null for a valid or a default-constructed one.
  const Error* error() const { return failure_.get(); }

 private:
  friend class Recorder;
  Value* value_ = nullptr;
  uint64_t function_ = 0;  ///< number of the traced function that the value, or the failure, belongs to
  Type type_;
  Loc loc_;
  std::shared_ptr<const Error> failure_;
};

/// An operand: a tensor, a parameter, or a number, which takes the element type of the tensors beside it. It records
/// the line on which it was written, so that functions of the front end need no location arguments.
class Arg {
 public:
  Arg(const Tensor& tensor, Site site = Site::current()) : tensor_(tensor), site_(site) {}
  Arg(const Param& param, Site site = Site::current());
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) Arg(T number, Site site = Site::current())
      : number_(static_cast<double>(number)), isNumber_(true), site_(site) {}

  bool isNumber() const { return isNumber_; }
  double number() const { return number_; }
  const Site& site() const { return site_; }
  /// The tensor; for a parameter its value in the function that is being traced. Invalid for a number.
  const Tensor& tensor() const { return tensor_; }
  const Shape& shape() const { return tensor_.shape(); }
  int rank() const { return tensor_.rank(); }

 private:
  Tensor tensor_;
  double number_ = 0;
  bool isNumber_ = false;
  Site site_;
};

/// The operands of an operation that takes any number of them.
class Args {
 public:
  Args(std::initializer_list<Arg> list, Site site = Site::current()) : list_(list), site_(site) {}
  Args(const std::vector<Tensor>& list, Site site = Site::current())
      : list_(list.begin(), list.end()), site_(site) {}
  const std::vector<Arg>& list() const { return list_; }
  const Site& site() const { return site_; }

 private:
  std::vector<Arg> list_;
  Site site_;
};

/// A name in the model's source, with its location.
struct Key {
  Key(const char* text, Site site = Site::current()) : text(text), site(site) {}
  Key(std::string text, Site site = Site::current()) : text(std::move(text)), site(site) {}
  std::string text;
  Site site;
};

/// Extents: `{2, 3}`, a tensor's shape, or a vector. Too many are an error with a location.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> extents) : extents_(extents) {}
  Dims(std::vector<int64_t> extents) : extents_(std::move(extents)) {}
  Dims(const Shape& shape) : extents_(shape.begin(), shape.end()) {}
  const std::vector<int64_t>& values() const { return extents_; }

 private:
  std::vector<int64_t> extents_;
};

/// Axes of a reduction: none means all, `-1` the last, `{0, -1}` several.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : axes_{axis}, all_(false) {}
  Axes(std::initializer_list<int64_t> axes) : axes_(axes), all_(false) {}
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)), all_(false) {}
  /// The axes for a tensor of this rank, counted from the front if they are in range.
  std::vector<int64_t> of(int rank) const;

 private:
  std::vector<int64_t> axes_;
  bool all_ = true;
};

}  // namespace tg::nn
