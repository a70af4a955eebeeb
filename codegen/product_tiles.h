// SPDX-License-Identifier: Apache-2.0
// How the invocations of a workgroup divide a tile of a product. Private to codegen/.
#pragma once

#include "codegen/index.h"

namespace tg {

/// Which of a block's places an invocation takes, counted in tiles.
struct TilePlace {
  Index row, column;
};

/// The place of invocation `number` of a block of `down` x `across` places.
TilePlace placeOf(IndexSpace& space, const Index& number, int64_t down, int64_t across);

}  // namespace tg
