// SPDX-License-Identifier: Apache-2.0
// What things cost, in the passes of fuse: every number by which they choose, with where it comes from: a
// measurement, a count, or "chosen" where neither stands behind it. What a device is like is no number here
// but a member of its target (ir/target.h); these hold for all devices.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tg::fuse {

/// A divisor of n that is at most `limit`, the largest there is; 1 when there is none.
inline int64_t divisorUpTo(int64_t n, int64_t limit) {
  for (int64_t candidate = std::min(n, limit); candidate > 1; --candidate)
    if (n % candidate == 0) return candidate;
  return 1;
}

// The size of a kernel.

/// Primitives in one region, chosen: longer code takes drivers seconds to compile, and a chain so long
/// computes longer than it loads.
constexpr int kMostPrimitives = 128;
/// What a composite counts for among them, chosen: about what a normalisation expands to.
constexpr int kCompositePrimitives = 8;
/// Views that follow each other before one is stored, chosen: index arithmetic grows with each.
constexpr int kMostViews = 64;

// Composites that become several kernels.

/// The longest row for one workgroup where there are few of them. On an H200 a step with a softmax of one row of 80 000
/// took 34 µs in one kernel and 24 in several, of 2^18 81 and 25; of 8 rows of 80 000 37 and 32.
constexpr int64_t kLongestRow = 1 << 16;
/// Rows that are few, chosen: a kernel for all takes no memory between its passes.
constexpr int64_t kFewRows = 16;

/// Elements that an invocation takes alone in a composite while others are idle, chosen: as many as a second stage does.
constexpr int64_t kMostAlone = 64;

// The gradient of max_pool2d.

/// Elements of windows that one kernel reads for each element of x; with more, a second kernel finds the places of the
/// maxima first. On lavapipe one kernel is faster for windows of 3 x 3 at every second place (20), and slower at every
/// place (81).
constexpr double kMostSearched = 32;

// Reductions in two stages (split-reductions, and the gradient norm of flatten-optimizer).

/// Terms that one invocation may sum while others are idle, chosen: a second stage is a dispatch, which must
/// be less.
constexpr int64_t kLongestLoop = 1024;
/// Where a lane sums by itself, terms of one stage if all invocations had one sum, chosen: 4096 for each of
/// lavapipe's 64, 1 MiB of loads in all.
constexpr int64_t kLaneLoads = 1 << 18;
/// The least of them for one lane, however many there are, chosen.
constexpr int64_t kLeastLaneLoads = 128;
/// Terms for each that the second stage sums, where a lane sums by itself, chosen: it loads 1/16 of the
/// first's bytes.
constexpr int64_t kLaneShare = 16;
/// The same where a workgroup sums, chosen. Along the last axis 512 are one round of 128 lanes that load
/// vectors of 4.
constexpr int64_t kGroupShare = 512, kColumnShare = 64;
/// Terms for each lane of a workgroup that sums a row, chosen: more wait for a second workgroup's help.
constexpr int64_t kGroupRounds = 64;
/// The second stage has at most this part of the terms that one stage does well, chosen.
constexpr int64_t kSecondStage = 4;
/// Elements of the flat gradient for each partial sum of the norm, at least (chosen), and the width of its
/// loads.
constexpr int64_t kNormPiece = 256, kNormVector = 4;
/// The least elements in a row, and the least rows for each processor, where the update of a flat group also sums the
/// squares of gradients. For 124 million parameters on an H100 this kernel takes 1.18 ms, 1.20 with rows half as long;
/// an update and a sum in kernels of their own take 1.17 and 0.17.
constexpr int64_t kUpdateRow = 7168, kUpdateRows = 16;
/// Elements that a block of a running sum adds up one by one. On lavapipe a sum along 2048 of 2048 x 2048 took 35 ms with
/// blocks of 64, 13 with 16 and 8 with 8, which has one more level; 4 x 128 x 8192 took 144, 14 and 15.
constexpr int64_t kScanBlock = 16;
/// Blocks up to which a running sum is one kernel where the device has an invocation for each element, chosen: cutting it
/// up takes two dispatches more.
constexpr int64_t kFewScanBlocks = 8;

// Products along a long inner axis (split-K).

/// Elements that an invocation computes at once: a register tile of 4 x 4.
constexpr int64_t kTileElements = 16;
/// The least of the inner axis for one piece: 8 steps of a tile's depth, which is 8 in registers, 16 in
/// shared memory.
constexpr int64_t kLeastPiece = 64, kLeastSharedPiece = 128;
/// Where rows or columns are too few for blocks in shared memory, each round of a tile in registers waits for its loads. On
/// an H100 a product of 64 x 1568 by 1568 x 10 took 17 µs with pieces of 196 terms, 7 with 56 and 5 with 32, the step of
/// a small CNN 0.156, 0.143 and 0.143 ms.
constexpr int64_t kLeastNarrowPiece = 32;
/// Terms that one invocation sums of such a product while others are idle. On an H100 4096 x 768 by 768 x 10 took 56 µs whole,
/// 26 in pieces.
constexpr int64_t kLongestNarrow = 256;
/// A side of the block that a workgroup computes of a small product, and how many of them a processor is
/// given, chosen: while some wait for loads, others compute.
constexpr int64_t kSmallBlock = 64, kBlocksPerUnit = 8;
/// The block that most products take.
constexpr int64_t kBlockRows = 64, kBlockColumns = 128;
/// What storing and adding one piece takes, in steps along the inner axis: measured on an H200, where 12
/// multiplications take the time of a byte of its 4.
constexpr double kStorePiece = 48;
/// The block of a product by matrix units of what has 16 bits in memory, and the steps that storing and adding
/// a piece of it takes: measured on an H200, where 4 pieces of 8192 terms are best for 768 x 768 and for 768 x
/// 3072, and 2 of 50304 for 8192 x 768.
constexpr int64_t kMatrixRows = 128, kMatrixColumns = 256;
/// The widest heads of f32 that are filled up with zeros; scores of wider ones are stored, which takes no more time there.
constexpr int64_t kWidestFilled = 64;
/// Products with a shorter side are not made by matrix units, whose matrices would be mostly empty.
constexpr int64_t kMatrixSide = 16;
constexpr double kStoreMatrixPiece = 500;
/// The same of f32x3: what stores and adds 8 bytes at 4 TB/s computes so many steps at 85 TFLOP/s.
constexpr int64_t kHalvedSide = 128;
constexpr double kStoreHalvedPiece = 85;
/// More pieces are taken where they leave so much of the time, by the same count; less is within its error.
constexpr double kWorthwhile = 0.97;
/// At most so many times the pieces that fill the device, of at least so many terms, are looked at, chosen:
/// with more what is stored outweighs what is computed (48 / 256).
constexpr int64_t kMostPieces = 8, kShortestPiece = 256;

/// Terms of a product of a matrix and a vector from which it is a sum, chosen.
constexpr int64_t kShortestVector = 256;

// Scatters by blocks of ids.

/// Comparisons (rows times ids) from which a kernel that finds near blocks pays, and the least of each,
/// chosen; the gradient of an embedding of 50k rows with 8k ids, a hundred times as many, takes a tenth of
/// the time on lavapipe.
constexpr int64_t kScatterWork = 1 << 22, kScatterSide = 256;
/// Ids of a block: long, because drivers of CPUs unroll short loops into code that runs whatever the branch says.
/// Where workgroups reduce, a step of GPT-2 on an H200 took 293, 253 and 284 µs for both kernels with 256, 512 and 1024.
constexpr int64_t kLaneScatterBlock = 256, kGroupScatterBlock = 512, kLeastScatterBlock = 16;
/// Flags to compute, and rows of a bucket at least, chosen. Where workgroups reduce, flags are cheap, and so
/// many that few rows look into a block for nothing.
constexpr int64_t kGroupFlags = 1 << 21, kLaneFlags = 1 << 20;
constexpr int64_t kNarrowestGroupBucket = 1, kNarrowestLaneBucket = 16;

/// Pieces of a scatter to few rows: of their elements, by fours, so many for each invocation that the device runs at a
/// time; ids of a piece at least; and pieces that pay for the kernels more. On an H200, 65 rows of 384 floats and 16384
/// ids took 55 µs where one piece took 490; 65 rows of 64 and 1024 ids took 10 µs more.
constexpr int64_t kScatterFill = 4, kLeastScatterPiece = 512, kFewestScatterPieces = 8;

// Which ops share a kernel (form-regions).

/// Elements of which a dispatch costs more than to draw them again for each pass over their row, chosen.
constexpr int64_t kFewDraws = 4096;
/// Bytes kept alive that are worth a kernel of their own, chosen far below what it is about: a tied head's
/// logits, which waited for the embedding's gradient, made GPT-2's step 8.7 GB instead of 7.0.
constexpr int64_t kWorthAKernel = 1 << 22;
/// Tensors as large as its own that a sum over rows may read to compute its maps itself: x and its gradient.
constexpr int kMapsOfASum = 2;

// What is computed again (rematerialize).

/// Terms of a product that is no more work than a map: one vector of 4.
constexpr int64_t kShortInner = 4;
/// Bytes read for each that is computed, and ops of a copy, chosen: a normalisation reads its rows, an
/// activation one or two tensors. All copies together take less than 2 % of a step on lavapipe.
constexpr int64_t kMostReads = 4;
constexpr size_t kMostOpsAgain = 16;

// Copies of parameters in 16 bits (flatten-optimizer).

/// Elements from which a parameter's copy is a kernel of its own, chosen: it moves 24 MiB, which takes longer than
/// a dispatch, and copies of one kernel all live as long as one of them is read.
constexpr int64_t kLargeCopy = 1 << 22;

// What is run again to stay in a budget (plan).

/// Operations in the time that a byte of memory takes (an H200 does 12).
constexpr double kWorkOfAByte = 12;
/// Operations of each of the invocations that keep a device busy (`parallel`), in the time that a kernel takes however
/// little it does: 5.7 µs on an H200, whose chain of 49 small kernels takes 6.1 each; 16 µs on two cores.
constexpr double kWorkOfAKernel = 5000;
/// How many times as fast as in f32 matrix units multiply 16 bits (an H200: 290 and 57 TFLOP/s).
constexpr double kMatrixSpeed = 5;
/// Work that may be added, as a part of the function's, chosen: a step takes no more than twice its time.
constexpr double kMostAddedWork = 1;
/// Kernels that make one value again, chosen: a block of a network has some ten.
constexpr int kMostKernelsAgain = 48;
/// What one of them must free of the bytes alive, chosen: one part in this.
constexpr int64_t kLeastSaving = 4096;

// Which kernels become one (merge-kernels).

/// Kernels that wait at one time, chosen, so that the time to compile is linear in the function.
constexpr size_t kMostWaiting = 16;
/// Results of a part, chosen: with more it fills a device by itself.
constexpr int64_t kFewResults = 4096;
/// Where lanes sum by themselves (CPUs), a kernel that reads a larger tensor than this waits for no more than
/// so many kernels, chosen: until then caches hold the tensor.
constexpr int64_t kLargeBytes = 1 << 16;
constexpr int kSoon = 8;
/// Kernels that one is put off for, to be results of another that reads the same, chosen: so many lie between a weight's
/// gradient and that of the normalisation in front of it.
constexpr size_t kHostReach = 8;
/// Growth of the bytes alive at one time that fewer kernels are worth, chosen: one part in this, 1 %, and so many
/// bytes in any case, as many as rematerialize finds worth a kernel.
constexpr int64_t kLiveGrowth = 100, kLeastGrowth = 1 << 18;
/// Results of a workgroup at least, where the schedule does not say: bounds the grid from above.
constexpr int64_t kSmallestGroup = 8;

}  // namespace tg::fuse
