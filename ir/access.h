// SPDX-License-Identifier: Apache-2.0
// How a fused region accesses memory: its bindings, its result slots, and whether a result may be written over the
// bytes of an operand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace tg {

/// The values that a binding of a tg.fused op reads: one, or the members of a group in order.
std::vector<Value*> bindingSources(const Op& fused, int binding);

/// The type of the region argument that a binding defines: the type of its source, or the flat tensor of a group.
Type boundType(const Operand& source);

/// One value that a region yields: a single result, or a group of `count` results as one flat tensor.
struct ResultSlot {
  int first = 0;  ///< index into Op::results
  int count = 1;
  bool group = false;
};
std::vector<ResultSlot> resultSlots(const Op& fused);
std::vector<Value*> valuesOf(const Op& fused, const ResultSlot& slot);

/// The types of the values, as groupBytes takes them.
std::vector<Type> typesOf(const std::vector<Value*>& values);
/// Whether the host reads the op's operands after the step: return, tg.capture, tg.param_grad.
bool hostReads(const Op& op);
/// Whether a value is a constant whose elements all are this number.
bool isNumber(const Value& value, double number);
/// The value at the start of a chain of casts.
const Value* throughCasts(const Value* value);
/// Whether an op reads a parameter or a state as it is when the step begins.
bool readsSymbol(const Op& op);
/// Whether an op's results are in memory when the step begins: parameters, states, and pieces of an argument.
bool readsEntry(const Op& op);
/// Whether an op is a command of its own between possible barriers: a kernel or a collective.
bool isTurn(const Op& op);

/// Whether element i of an op's result depends only on the elements i of those operands that have its extents.
bool keepsElements(const Op& op);

/// Whether a result may be written in place: the kernel reads this binding only at the element of the result slot
/// that it is about to write. Then the slot may take over the binding's bytes.
///
/// Map and product schedules: only elementwise ops of the binding's own extents and order-preserving reshapes lead
/// from the block argument to the slot, which has equal element count and size. False if any op of the region
/// broadcasts, transposes, slices, reduces, gathers or contracts the binding. False if some result is larger, too:
/// one invocation computes an element of all largest results after loading each operand's element once, but smaller
/// results in separate code, which may load again after a store. If several schedules share the kernel, the part that
/// computes the slot must be a map or a column, and the binding must not reach the results of other parts.
///
/// Column schedule: a barrier stands between the loads of all lanes and the store. No invocation may lie beyond the
/// results, because it would read elements that another workgroup stores.
///
/// Row schedules: the region may also reduce the binding along its rows, because all of a row is read before one of
/// its elements is written.
///
/// Custom kernel: it reads and writes an inout parameter in one place, so that the result takes over the bytes of the
/// binding. The kernel, which `module` holds, must not read the binding through another parameter.
bool readsOnlyWrittenElement(const Op& fused, int binding, int result, const Module& module);

/// The attribute `rows`, [first, end]; empty if the op accesses the whole symbol. Before verification it may have
/// another length; the functions below then take the whole symbol.
std::vector<int64_t> rowsNamed(const Op& op);
/// Whether the op accesses only some rows of its symbol.
bool namesRows(const Op& op);
/// The type of what the op reads or updates, for a symbol of this type: with `rows = [first, end]` the first axis has
/// the extent end - first. The rows must be in range.
Type rowsType(const Op& op, const Type& symbol);
/// Where these rows are stored. The symbol must have a home.
Place rowsHome(const Op& op, const Item& symbol);
/// The symbol's name and the rows: equal for ops that access the same bytes.
std::string rowsKey(const Op& op);

}  // namespace tg
