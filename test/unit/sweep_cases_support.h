// SPDX-License-Identifier: Apache-2.0
// What the files of sweep cases write their cases with.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/builder.h"

namespace tg::test {

using Values = std::vector<Value*>;
using Build = std::function<Values(Builder&, const Values&)>;

inline Type f32(Shape shape) { return Type::tensor(DType::f32, shape); }
inline Type i32(Shape shape) { return Type::tensor(DType::i32, shape); }
inline Type i1(Shape shape) { return Type::tensor(DType::i1, shape); }
inline AttrList ints(const char* name, std::vector<int64_t> values) { return {{name, Attr::ints(values)}}; }
inline AttrList axis(int64_t at) { return {{"axis", Attr::of(at)}}; }

/// All results of an op over its arguments.
inline Values allResults(Builder& b, Opcode code, const Values& in, const AttrList& attrs = {}) {
  OperandList operands;
  for (Value* value : in) operands.push_back(Operand::of(value));
  Op* op = b.create(code, std::move(operands), attrs);
  Values out;
  for (auto& result : op->results) out.push_back(result.get());
  return out;
}

}  // namespace tg::test
