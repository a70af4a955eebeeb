// A kernel as a flat list of instructions over 32-bit registers, so that an invocation can stop at any
// of them and go on later. Vectors are unrolled; constants and invocation ids are registers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ir/kernel/kernel.h"

namespace tg {

/// A register or word of memory; the instruction says what it holds. bool is 0 or 1.
union Word {
  uint32_t u;
  int32_t i;
  float f;
};

namespace lane_math {
inline int32_t div(int32_t x, int32_t y) {
  if (y == 0) return 0;
  if (y == -1) return static_cast<int32_t>(0u - static_cast<uint32_t>(x));
  return x / y;
}
inline int32_t mod(int32_t x, int32_t y) { return y == 0 || y == -1 ? 0 : x % y; }
inline uint32_t div(uint32_t x, uint32_t y) { return y == 0 ? UINT32_MAX : x / y; }
inline uint32_t mod(uint32_t x, uint32_t y) { return y == 0 ? 0 : x % y; }
inline float min(float x, float y) { return y < x || std::isnan(y) ? y : x; }
inline float max(float x, float y) { return y > x || std::isnan(y) ? y : x; }
template <class T>
T sign(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}
/// A double rounded once to the register's format.
inline float rounded(double x) { return static_cast<float>(x); }
template <class T>
T truncated(float x) {
  if (std::isnan(x)) return 0;
  double whole = std::trunc(static_cast<double>(x));
  double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return static_cast<T>(whole < least ? least : whole > most ? most : whole);
}
}  // namespace lane_math

// Instructions that compute one register from up to three: name, field of the result, value. Sums, products,
// quotients and roots of floats are the rounded exact ones, as f64 followed by rounding would give.
// clang-format off
#define TG_LANE_CODES(X)                                                                                     \
  X(move, u, x.u)                                                                                            \
  X(addF, f, x.f + y.f)                                                                                      \
  X(addI, u, x.u + y.u)                                                                                      \
  X(subF, f, x.f - y.f)                                                                                      \
  X(subI, u, x.u - y.u)                                                                                      \
  X(mulF, f, x.f* y.f)                                                                                       \
  X(mulI, u, x.u* y.u)                                                                                       \
  X(mulHi, u, static_cast<uint32_t>(uint64_t{x.u} * y.u >> 32))                                              \
  X(divF, f, x.f / y.f) X(divI, i, lane_math::div(x.i, y.i)) X(divU, u, lane_math::div(x.u, y.u))            \
      X(modI, i, lane_math::mod(x.i, y.i)) X(modU, u, lane_math::mod(x.u, y.u)) X(                           \
          minF, f, lane_math::min(x.f, y.f)) X(minI, i, std::min(x.i, y.i)) X(minU, u, std::min(x.u, y.u))   \
          X(maxF, f, lane_math::max(x.f, y.f)) X(maxI, i, std::max(x.i, y.i)) X(maxU, u, std::max(x.u, y.u)) \
              X(powF, f, lane_math::rounded(std::pow(double{x.f}, double{y.f})))                             \
                  X(fmaF, f, std::fma(x.f, y.f, z.f)) X(negF, f, -x.f) X(negI, u, 0u - x.u) X(               \
                      absF, f, std::fabs(x.f)) X(absI, u, x.i < 0 ? 0u - x.u : x.u)                          \
                      X(signF, f, lane_math::sign(x.f)) X(signI, i, lane_math::sign(x.i))                    \
                          X(signU, u, x.u != 0) X(floorF, f, std::floor(x.f)) X(sqrtF, f, std::sqrt(x.f))    \
                              X(rsqrtF, f, lane_math::rounded(1 / std::sqrt(double{x.f}))) X(                \
                                  expF, f, lane_math::rounded(std::exp(double{x.f})))                        \
                                  X(logF, f, lane_math::rounded(std::log(double{x.f}))) X(andW, u, x.u& y.u) \
                                      X(orW, u, x.u | y.u) X(xorW, u, x.u ^ y.u) X(notI, u, ~x.u)            \
                                          X(notB, u, x.u ^ 1u) X(shl, u, x.u << (y.u & 31)) X(               \
                                              shrU, u, x.u >> (y.u & 31)) X(shrI, i, x.i >> (y.u & 31))      \
                                              X(ltF, u, x.f < y.f) X(ltI, u, x.i < y.i) X(ltU, u, x.u < y.u) \
                                                  X(leF, u, x.f <= y.f) X(leI, u, x.i <= y.i) X(             \
                                                      leU, u, x.u <= y.u) X(eqF, u, x.f == y.f)              \
                                                      X(eqW, u, x.u == y.u) X(neF, u, x.f != y.f) X(         \
                                                          neW, u, x.u != y.u) X(select, u, x.u ? y.u : z.u)  \
                                                          X(toI, i, lane_math::truncated<int32_t>(x.f))      \
                                                              X(toU, u, lane_math::truncated<uint32_t>(x.f)) \
                                                                  X(fromI, f, static_cast<float>(x.i))       \
                                                                      X(fromU, f, static_cast<float>(x.u))   \
                                                                          X(notZeroF, u, x.f != 0) X(        \
                                                                              notZeroW, u, x.u != 0)         \
                                                                              X(next, u,                     \
                                                                                static_cast<uint32_t>(       \
                                                                                    std::min<uint64_t>(      \
                                                                                        uint64_t{x.u} + y.u, \
                                                                                        UINT32_MAX)))
// clang-format on

enum class Code : uint8_t {
#define X(name, field, value) name,
  TG_LANE_CODES(X)
#undef X
      load,    // dst = memory, a: access
  store,       // a: access, b: value
  atomicF,     // a: access, b: value
  atomicI,     // a: access, b: value
  jump,        // a: target
  jumpUnless,  // a: target, b: condition
  checkStep,   // b: a loop's step
  barrier,
  reduce,  // a: reduction
  end,
};

struct Instr {
  Code code;
  uint32_t dst = 0, a = 0, b = 0, c = 0;
};

/// One load, store or atomic in the text.
struct Access {
  const Op* op;
  const Value* buffer;
  uint32_t memory;              ///< which of Program::memories
  uint32_t width;               ///< words of an element
  std::vector<uint32_t> index;  ///< a register for each axis
  std::vector<bool> isSigned;   ///< of each index
};

/// A buffer of the kernel: parameters first, then shared and local memory.
struct Memory {
  const Value* buffer;
  BufMode mode;
  std::vector<int64_t> extents;
  uint32_t start = 0;  ///< shared and local: first word among the workgroup's or invocation's
  int64_t words = 0;
};

struct Reduction {
  enum class Kind : uint8_t { add, max, min };
  Kind kind;
  DType dtype;
  uint32_t dst, source, width;
  bool repeated;  ///< the source is one register for all lanes
};

struct Program {
  static constexpr uint32_t kIds = 12;  ///< global, local, workgroup id and workgroup count, three each

  std::vector<Instr> code;
  std::vector<const Op*> ops;  ///< of each instruction
  std::vector<Word> initial;   ///< an invocation's registers before it starts: ids, constants, values
  std::vector<Access> accesses;
  std::vector<Memory> memories;
  std::vector<Reduction> reductions;
  uint32_t sharedWords = 0, localWords = 0;
};

/// Flattens a verified kernel; `bytes` are those of the parameters' buffers and settle open extents.
Program flatten(const Item& kernel, const std::vector<int64_t>& bytes);

}  // namespace tg
