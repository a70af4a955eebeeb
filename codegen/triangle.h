// Matrices of which only a triangle counts, as causal attention makes them: products leave out what a mask hides
// and what is zero. Private to codegen/ and lower-kernels.
#pragma once

#include <functional>

#include "codegen/plain_region.h"

namespace tg {

// Elements of a value's last two axes are above the diagonal where column > row + columns - rows: the diagonal ends
// in the last row's last column.

/// Whether all elements above the diagonal are zero; `known` says it of block arguments.
bool isLower(const Value& value, const std::function<bool(const Value&)>& known);

/// The same of a result of a function's op, through the kernels that lead to it.
bool resultIsLower(const Value& value);

/// Whether a region's results depend on no element of `value` above the diagonal: all readers mask it.
bool isReadBelow(const PlainRegion& region, const Value& value);

}  // namespace tg
