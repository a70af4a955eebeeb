// SPDX-License-Identifier: Apache-2.0
// How a fused region touches memory: its bindings, its result slots, and whether it may write a
// result over the bytes of an operand.
#pragma once

#include <vector>

#include "ir/module.h"

namespace tg {

/// The values a binding of a tg.fused op reads: one, or the members of a group in order.
std::vector<Value*> bindingSources(const Op& fused, int binding);

/// The type of the region argument that a binding defines: its source's, or a group's flat tensor.
Type boundType(const Operand& source);

/// One thing a region yields: a single result or a group of `count` results, flat in the region.
struct ResultSlot {
  int first = 0;  ///< index into Op::results
  int count = 1;
  bool group = false;
};
std::vector<ResultSlot> resultSlots(const Op& fused);
std::vector<Value*> valuesOf(const Op& fused, const ResultSlot& slot);

/// The types of some values, as groupBytes wants them.
std::vector<Type> typesOf(const std::vector<Value*>& values);
/// Whether the host reads the op's operands after the call: return, tg.capture, tg.param_grad.
bool hostReads(const Op& op);
/// Whether a value is a constant that holds this number everywhere.
bool isNumber(const Value& value, double number);
/// Whether an op is the value of a parameter or a state at entry.
bool readsSymbol(const Op& op);
/// Whether an op takes a turn of its own, between which barriers may stand: a kernel or a collective.
bool isTurn(const Op& op);
/// Bytes a placed value spans, its pitch included.
int64_t placedBytes(const Value& value);

/// Whether element i of an op's result is a function of the operands' elements i, where extents agree.
bool keepsElements(const Op& op);

/// Whether a kernel reads this binding solely at the element of the result slot it is about to
/// write, so that the slot may take over the binding's bytes: the schedule is a map or a product's, from
/// the block argument only elementwise ops of its own extent and order-preserving reshapes lead on, and
/// the slot is reached with equal element count and size. A broadcast, transpose, slice, reduction,
/// gather or contraction of the binding, anywhere in the region, says no. So does a larger result:
/// one invocation computes an element of all largest results after loading each operand's element
/// once, and smaller results in code of their own, which may load again after a store. Of several schedules
/// side by side the slot's is a map or a column, and no other part's results are reached.
///
/// A column kernel has a barrier between the reads of all lanes and the store. It qualifies only if no invocation lies
/// beyond the results, since those read what another workgroup stores.
///
/// A kernel over rows may also reduce the binding along the rows: their invocations have read all of a row
/// before one of them writes an element of it.
///
/// A custom kernel reads and writes an inout parameter in one place: its result takes over the binding's
/// bytes when the kernel, which `module` holds, reads the binding through no other parameter.
bool readsOnlyWrittenElement(const Op& fused, int binding, int result, const Module& module);

}  // namespace tg
