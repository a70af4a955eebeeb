// SPDX-License-Identifier: Apache-2.0
// The cost model of the passes of fuse: every number by which they decide, with its origin: a measurement, a count, or
// "chosen" where there is neither. These hold for all devices. Properties of one device are members of its target
// (ir/target.h) instead.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tg::fuse {

/// The largest divisor of n that is at most `limit`; at least 1.
inline int64_t divisorUpTo(int64_t n, int64_t limit) {
  for (int64_t candidate = std::min(n, limit); candidate > 1; --candidate)
    if (n % candidate == 0) return candidate;
  return 1;
}

// Size of a kernel.

/// Most primitives in one region, chosen: longer code takes drivers seconds to compile, and a chain of this length
/// already computes for longer than it loads.
constexpr int kMostPrimitives = 128;
/// How many primitives a composite counts as, chosen: about what a normalisation expands to.
constexpr int kCompositePrimitives = 8;
/// Most views in a chain before one of them is stored, chosen: index arithmetic grows with each.
constexpr int kMostViews = 64;

/// Most cheap ops that sink-maps and narrow-results let several kernels repeat, chosen: a batch norm's difference is
/// one. What they read does not count where it has at most one part in kSmallLeaf of the bytes, such as the means of
/// channels.
constexpr int kMostOpsSunk = 3;
constexpr int64_t kSmallLeaf = 64;

// Composites that become several kernels.

/// The longest row for one workgroup where there are few of them. On an H200 a step with a softmax of one row of 80 000
/// took 34 µs in one kernel and 24 in several, of 2^18 81 and 25; of 8 rows of 80 000 37 and 32.
constexpr int64_t kLongestRow = 1 << 16;
/// How many rows count as few, chosen: one kernel for all of them needs no memory between its passes.
constexpr int64_t kFewRows = 16;

/// Most elements that one invocation may process in a composite while others are idle, chosen: as many as a second stage
/// would.
constexpr int64_t kMostAlone = 64;

// The gradient of max_pool2d.

/// Elements of windows that one kernel may read for each element of x. Above that, a first kernel finds the positions of
/// the maxima. On lavapipe one kernel is faster for windows of 3 x 3 at stride 2 (20 elements), and slower at stride 1
/// (81). On GPUs (targets where workgroups reduce) two kernels are faster at stride 2: on an H100, for 32 x 64 x 112 x 112,
/// one took 271 µs, two took 131 in f32 and 104 in bf16.
constexpr double kMostSearched = 32, kMostSearchedByGroups = 16;

// Sums without the factors that all terms share (factor-sums).

/// Most terms of a sum's operand, and most ops in a chain, that are looked at, chosen: the gradient of a norm has two terms
/// and chains of six.
constexpr size_t kMostTerms = 8;
constexpr int kMostDepth = 8;

// Products and sums of many small operands as one (join-sums).

/// Least number of terms that are joined, chosen: two or three small kernels are no loss.
constexpr size_t kLeastJoined = 4;

// Classes padded to rows of whole 16 bytes (pad-classes).

/// Least number of classes, chosen: with fewer, a product reads more of its factors than it stores.
constexpr int64_t kManyClasses = 512;

// Reductions in two stages (split-reductions, and the gradient norm of flatten-optimizer).

/// Most terms that one invocation may sum while others are idle, chosen: a second stage costs a dispatch, which must
/// take less time.
constexpr int64_t kLongestLoop = 1024;
/// Where each lane sums by itself: terms that one stage may sum, divided among the target's invocations (see
/// longestOf), chosen: 4096 for each of lavapipe's 64, 1 MiB of loads in all.
constexpr int64_t kLaneLoads = 1 << 18;
/// The least result of that division, however many invocations there are, chosen.
constexpr int64_t kLeastLaneLoads = 128;
/// Where each lane sums by itself: terms of the first stage for each term of the second, chosen, so that the second loads
/// 1/16 of the first's bytes.
constexpr int64_t kLaneShare = 16;
/// The same where a workgroup sums, along the last axis and along another, chosen. Along the last axis 512 are one round
/// of 128 lanes that load vectors of 4.
constexpr int64_t kGroupShare = 512, kColumnShare = 64;
/// Most terms for each lane of a workgroup that sums a row, chosen: above that a second stage pays.
constexpr int64_t kGroupRounds = 64;
/// The second stage sums at most this fraction (one part in 4) of the terms that one stage does well, chosen.
constexpr int64_t kSecondStage = 4;
/// The least elements of the flat gradient in each partial sum of the norm (chosen), and the width of its loads.
constexpr int64_t kNormPiece = 256, kNormVector = 4;
/// The least elements in a row, and the least rows for each processor, where the update of a flat group also sums the
/// squares of gradients. For 124 million parameters on an H100 this kernel takes 1.18 ms, 1.20 with rows half as long;
/// an update and a sum in kernels of their own take 1.17 and 0.17.
constexpr int64_t kUpdateRow = 7168, kUpdateRows = 16;
/// Elements that are added one by one in a block of a running sum. On lavapipe a sum along 2048 of 2048 x 2048 took 35 ms
/// with blocks of 64, 13 with 16 and 8 with 8, which has one more level; 4 x 128 x 8192 took 144, 14 and 15.
constexpr int64_t kScanBlock = 16;
/// Most blocks of a running sum that stay one kernel where the device has an invocation for each element, chosen: splitting
/// costs two more dispatches.
constexpr int64_t kFewScanBlocks = 8;

// Products along a long inner axis (split-K).

/// Elements that one invocation computes at a time: a register tile of 4 x 4.
constexpr int64_t kTileElements = 16;
/// The least extent of the inner axis in one slice: 8 steps of the tile's depth, which is 8 in registers and 16 in
/// shared memory.
constexpr int64_t kLeastPiece = 64, kLeastSharedPiece = 128;
/// The same where rows or columns are too few for blocks in shared memory: each step of a register tile waits for its
/// loads, so shorter slices pay. On an H100 a product of 64 x 1568 by 1568 x 10 took 17 µs with slices of 196 terms, 7 with
/// 56 and 5 with 32, the step of a small CNN 0.156, 0.143 and 0.143 ms.
constexpr int64_t kLeastNarrowPiece = 32;
/// Most terms that one invocation sums in such a product while others are idle. On an H100 4096 x 768 by 768 x 10 took 56 µs
/// whole, 26 in slices.
constexpr int64_t kLongestNarrow = 256;
/// The same in a product with blocks of the smallest side, kLeastBlock, for at most one in kIdleShare of the
/// processors. On an H100 64 x 1024 by 1024 x 256 takes 20 µs whole, 5.7 in slices. Slices of a product of up to
/// kLongestLoop terms have at least kLeastIdlePiece: with 128, f32 was more exact than f32x3.
constexpr int64_t kLongestIdle = 512, kLeastIdlePiece = 256, kLeastBlock = 32, kIdleShare = 8;
/// The side of a workgroup's block in a small product, and how many such blocks each processor gets, chosen: while some
/// wait for loads, others compute.
constexpr int64_t kSmallBlock = 64, kBlocksPerUnit = 8;
/// Rows of several matrices by one are taken as the rows of one matrix unless a multiple of so many belong to each: then
/// blocks are full as it is, and the index of a row needs no division. On an H100 products in bf16 of 448 matrices of 14
/// rows, too few for matrix units, ran at 9 TFLOP/s, of their 6272 rows at 160.
constexpr int64_t kFullRows = 64;
/// Columns of several matrices are taken as those of one if they fill less than kFullColumns of their blocks. These have
/// kMatrixColumns if there are half as many as processors, else kFullRows. The product then has no epilogue: it is a kernel
/// of its own, which reads f32. With fewer than kManyTerms that costs more than blocks that are half full (estimated from
/// traffic and arithmetic), so the share is kHalfColumns. On an H100 in bf16, the convolutions of 7x7 and 14x14 images took
/// 0.3 ms of a ResNet-18's 4.6 less, those of 4x4 1.0 of a DCGAN's 3.0, of 8x8 another 0.1.
constexpr double kFullColumns = 0.8, kHalfColumns = 0.5;
constexpr int64_t kManyTerms = 1024;
/// The block that most products use.
constexpr int64_t kBlockRows = 64, kBlockColumns = 128;
/// The time to store and add one slice, in steps along the inner axis: measured on an H200, which does 12
/// multiplications in the time of one byte; an element has 4.
constexpr double kStorePiece = 48;
/// The large block of a product by matrix units whose operands have 16 bits in memory.
constexpr int64_t kMatrixRows = 128, kMatrixColumns = 256;
/// Elements of 16 bits that one access of 16 bytes moves.
constexpr int64_t kVector = 8;
/// The time of the kernel that adds the slices of such a product, in µs, and the bytes of slices that it reads in a µs:
/// measured on an H200, where the sum of 2 slices of 2048 x 1024 takes 8.3 µs.
constexpr double kSumOfPieces = 4.5, kSummedBytes = 4.3e6;
/// The widest f32 heads that are padded with zeros. Wider ones store their scores, which takes no more time there.
constexpr int64_t kWidestFilled = 64;
/// Products with a shorter side do not use matrix units, whose matrices would be mostly empty.
constexpr int64_t kMatrixSide = 16;
/// The same for f32x3: storing and adding 8 bytes at 4 TB/s takes the time of so many steps at 85 TFLOP/s.
constexpr int64_t kHalvedSide = 128;
constexpr double kStoreHalvedPiece = 85;
/// More slices are used only if they take at most this fraction of the time, by the same estimate; less is within its error.
constexpr double kWorthwhile = 0.97;
/// Slice counts that are tried: at most this many times those that fill the device, each of at least so many terms,
/// chosen: beyond that storing outweighs computing (48 / 256).
constexpr int64_t kMostPieces = 8, kShortestPiece = 256;

/// Least terms of a product of a matrix and a vector that is computed as a sum instead, chosen.
constexpr int64_t kShortestVector = 256;

// Convolutions by Winograd's algorithm.

/// The least C·K / (C + K) of C input and K output channels: multiplications saved grow with C·K, elements moved by the
/// transforms with C + K. On an H100 forward and both gradients of 3x3 convolutions took, with windows and so: 324 and
/// 340 µs for C = K = 32, 598 and 540 for 48, 496 and 467 for 64, 443 and 338 for 64 and 128, 686 and 370 for 96, 486 and
/// 286 for 256. Where that is little gain the transformed images are not worth their memory.
constexpr int64_t kLeastWinograd = 40;
/// The least number of tiles of 2x2 results. With 512 channels and 49 tiles it took 170 and 169 µs, with 256 channels and
/// 196 tiles 179 and 111.
constexpr int64_t kLeastTiles = 128;
/// The part of plan's budget that a transformed image may take, chosen: there are two of them at a time, and the image,
/// the result and other convolutions' images beside them.
constexpr int64_t kWinogradShare = 16;

// Scatters.

/// Comparisons (rows times ids) from which sorting the ids pays, and the least number of each, chosen.
constexpr int64_t kScatterWork = 1 << 22, kScatterSide = 256;

/// Comparisons of an id, by vectors of 4 columns or for single elements, that take as long as sorting it; and comparisons that
/// take as long as finding the sorted ids of one row. On Mesa's CPU device 200 000 ids took 27 ms for 256 rows, 110 for 1024
/// and 436 for 4096, and 250 sorted; 50 000 ids and rows of 16 floats 35 and 133 ms for 256 and 1024 rows, and 46 sorted;
/// 20 000 ids 42 ms for 4088 rows, and 15 sorted; 1024 ids along axes of 32 768 elements 5.1 ms, and 5.7 sorted.
constexpr int64_t kSortedId = 1600, kFoundRow = 64;

/// Pieces of a scatter to few rows: how many vectors of 4 result elements each invocation that the device runs at a time
/// gets; the least ids of a piece; and the least pieces that pay for the additional kernels. On an H200, 65 rows of 384
/// floats and 16384 ids took 55 µs where one piece took 490; 65 rows of 64 and 1024 ids took 10 µs more. Pieces are
/// multiples of kIdsAtOnce: 255 rows of 64 floats and 100 003 ids took 147 µs on an H100, and 484 in pieces of 1563 ids.
constexpr int64_t kScatterFill = 4, kLeastScatterPiece = 512, kFewestScatterPieces = 8;
/// Sorted ids are better where pieces would compare ids with more vectors than this, unless there are so many ids for each
/// row, which an invocation adds one after the other. 262 144 ids, 16 384 rows of 8 floats: 2228 µs on an H200 in pieces.
constexpr int64_t kPieceWork = int64_t{1} << 29, kLongRow = 4096;

// Which ops share a kernel (form-regions).

/// Most elements that are cheaper to draw again in each pass over their row than to store by a dispatch, chosen.
constexpr int64_t kFewDraws = 4096;
/// Bytes kept alive that justify a separate kernel, chosen far below the case that it is for: a tied head's logits,
/// kept until the embedding's gradient was there, made GPT-2's step 8.7 GB instead of 7.0.
constexpr int64_t kWorthAKernel = 1 << 22;
/// How many full-size tensors a sum over rows may read to compute its maps itself: x and its gradient.
constexpr int kMapsOfASum = 2;

// What is computed again (rematerialize).

/// Most terms of a product that costs no more than a map: one vector of 4.
constexpr int64_t kShortInner = 4;
/// Most bytes read for each byte computed, and most ops of a copy, chosen: a normalisation reads its rows, an activation
/// one or two tensors. All copies together take less than 2 % of a step on lavapipe.
constexpr int64_t kMostReads = 4;
constexpr size_t kMostOpsAgain = 16;

// Copies of parameters in 16 bits (flatten-optimizer).

/// Elements from which a parameter's copy is a kernel of its own, chosen: it moves 24 MiB, which takes longer than
/// a dispatch, and copies of one kernel all live as long as one of them is read.
constexpr int64_t kLargeCopy = 1 << 22;

// What plan runs again to stay within a budget.

/// Operations in the time of one byte of memory traffic (an H200 does 12).
constexpr double kWorkOfAByte = 12;
/// The least time of a kernel, however little it does, in operations of each of the invocations that keep a device busy
/// (`parallel`): 5.7 µs on an H200, whose chain of 49 small kernels takes 6.1 each; 16 µs on two cores.
constexpr double kWorkOfAKernel = 5000;
/// How many times faster matrix units multiply 16 bits than f32 is multiplied (an H200: 290 and 57 TFLOP/s).
constexpr double kMatrixSpeed = 5;
/// Most work that may be added, as a fraction of the function's, chosen: a step takes at most twice its time.
constexpr double kMostAddedWork = 1;
/// Most kernels that compute one value again, chosen: a block of a network has some ten.
constexpr int kMostKernelsAgain = 48;
/// The least share of the live bytes that one of them must free, chosen: one part in 4096.
constexpr int64_t kLeastSaving = 4096;

// Which kernels are merged (merge-kernels).

/// Most merged kernels waiting at one time, chosen, so that compile time is linear in the function.
constexpr size_t kMostWaiting = 16;
/// Most results of a part, chosen: a kernel with more fills a device by itself.
constexpr int64_t kFewResults = 4096;
/// Where each lane sums by itself (CPUs), a kernel that reads a larger tensor than this waits for at most so many
/// kernels, chosen: for that long the tensor stays in cache.
constexpr int64_t kLargeBytes = 1 << 16;
constexpr int kSoon = 8;
/// How many kernels further a host may be, chosen: so many lie between a weight's gradient and that of the normalisation
/// in front of it.
constexpr size_t kHostReach = 8;
/// Two maps are merged for a tensor that both read if it has at least one in so many of their elements, chosen: the gates of
/// a cell, whose gradients two kernels put side by side.
constexpr int64_t kLeastShared = 4;
/// Growth of peak live bytes that merging may cost, chosen: one part in 100, or this many bytes if that is more.
constexpr int64_t kLiveGrowth = 100, kLeastGrowth = 1 << 18;
/// The least results of a workgroup where the schedule does not say: bounds the grid from above.
constexpr int64_t kSmallestGroup = 8;

}  // namespace tg::fuse
