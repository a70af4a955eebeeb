// SPDX-License-Identifier: Apache-2.0
// Tiles in shared and local memory: loops that fill one and read it, which their gradients fill again; and
// loops whose tiles hold what an earlier iteration left, of which they may not.
#include <fmt/format.h>

#include <cmath>

#include "test/unit/kernel_grad_catalogue.h"

namespace tg::test {
namespace {

/// Σ_k l[i][k]·r[k][j], row by row.
std::vector<double> product(const std::vector<double>& l, const std::vector<double>& r, size_t m, size_t k,
                            size_t n) {
  std::vector<double> out(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t at = 0; at < k; ++at) out[i * n + j] += l[i * k + at] * r[at * n + j];
  return out;
}

std::vector<double> transposed(const std::vector<double>& x, size_t rows, size_t columns) {
  std::vector<double> out(x.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) out[j * rows + i] = x[i * columns + j];
  return out;
}

/// A product of MxK and KxN in tiles of `side` along rows and columns and `depth` along k; d_a = d_c·bᵀ and
/// d_b = aᵀ·d_c.
KernelGradCase tiledProduct(int64_t m, int64_t k, int64_t n, int64_t side, int64_t depth) {
  KernelGradCase test;
  auto load = [&](const char* tile, const char* source, const char* row, const char* column, const char* rows,
                  const char* columns, int64_t height, int64_t width) {
    // The workgroup's side·side invocations take the tile's elements in turn.
    return fmt::format(R"(tgk.for %e{0} = %l to({6}) step({7}) {{
  %r{0} = tgk.div %e{0}, {8} : u32
  %c{0} = tgk.mod %e{0}, {8} : u32
  %gr{0} = tgk.add {2}, %r{0} : u32
  %gc{0} = tgk.add {3}, %c{0} : u32
  %ri{0} = tgk.lt %gr{0}, {4} : bool
  %ci{0} = tgk.lt %gc{0}, {5} : bool
  %in{0} = tgk.and %ri{0}, %ci{0} : bool
  %v{0} = tgk.if %in{0} : f32 {{
    %w{0} = tgk.load {1}[%gr{0}, %gc{0}] : f32
    tgk.yield %w{0} : f32
  }} else {{
    tgk.yield 0.0
  }}
  tgk.store %v{0}, %s{0}[%r{0}, %c{0}]
}}
)",
                       tile, source, row, column, rows, columns, height * width, side * side, width);
  };
  test.text = fmt::format(R"(kernel @k(%a: buf<?x?xf32, in>, %b: buf<?x?xf32, in>, %o: buf<?x?xf32, out>)
    workgroup({0}, {0}) grid(ceildiv(dim(%o, 1), {0}), ceildiv(dim(%o, 0), {0})) {{
  %tx = tgk.local_id 0 : u32
  %ty = tgk.local_id 1 : u32
  %t = tgk.mul %ty, {0} : u32
  %l = tgk.add %t, %tx : u32
  %col = tgk.global_id 0 : u32
  %row = tgk.global_id 1 : u32
  %gx = tgk.workgroup_id 0 : u32
  %gy = tgk.workgroup_id 1 : u32
  %x0 = tgk.mul %gx, {0} : u32
  %y0 = tgk.mul %gy, {0} : u32
  %m = tgk.dim %a, 0 : u32
  %kk = tgk.dim %a, 1 : u32
  %n = tgk.dim %b, 1 : u32
  %sa = tgk.shared : buf<{0}x{1}xf32, shared>
  %sb = tgk.shared : buf<{1}x{0}xf32, shared>
  %sum = tgk.for %k0 = 0 to(%kk) step({1}) iter_args(%acc = 0.0) : f32 {{
    {2}{3}tgk.barrier
    %part = tgk.for %j = 0 to({1}) iter_args(%p = %acc) : f32 {{
      %x = tgk.load %sa[%ty, %j] : f32
      %y = tgk.load %sb[%j, %tx] : f32
      %q = tgk.fma %x, %y, %p : f32
      tgk.yield %q : f32
    }}
    tgk.barrier
    tgk.yield %part : f32
  }}
  %rin = tgk.lt %row, %m : bool
  %cin = tgk.lt %col, %n : bool
  %ok = tgk.and %rin, %cin : bool
  tgk.if %ok {{
    tgk.store %sum, %o[%row, %col]
  }}
}})",
                          side, depth, load("a", "%a", "%y0", "%k0", "%m", "%kk", side, depth),
                          load("b", "%b", "%k0", "%x0", "%kk", "%n", depth, side));
  test.arrays = {{"a", drawn({m, k}, 1)}, {"b", drawn({k, n}, 2)}, {"o", room({m, n})}};
  test.cotangents = {{"o", drawn({m, n}, 3)}};
  auto um = static_cast<size_t>(m), uk = static_cast<size_t>(k), un = static_cast<size_t>(n);
  const std::vector<double>&a = test.arrays["a"].values, &b = test.arrays["b"].values,
        &g = test.cotangents["o"].values;
  test.expected = {{"a", given({m, k}, product(g, transposed(b, uk, un), um, un, uk))},
                   {"b", given({k, n}, product(transposed(a, um, uk), g, uk, um, un))}};
  return test;
}

/// A kernel of 8 invocations, %l, with a tile %s of an element each; %x has %n rows.
std::string tileKernel(const std::string& x, const std::string& o, const std::string& body) {
  return fmt::format("kernel @k(%x: buf<{}xf32, in>, %o: buf<{}xf32, out>) workgroup(8) grid(1) {{\n"
                     "%l = tgk.local_id 0 : u32\n%n = tgk.dim %x, 0 : u32\n"
                     "%s = tgk.shared : buf<8xf32, shared>\n{}}}",
                     x, o, body);
}

/// %sum, over a loop that fills the tile at %k and reads it, which makes %next of %acc.
std::string tileLoop(const std::string& fill, const std::string& read, const std::string& step = {}) {
  return "%sum = tgk.for %k = 0 to(%n) " + step + "iter_args(%acc = 0.5) : f32 {\n" + fill + "tgk.barrier\n" +
         read + "tgk.barrier\ntgk.yield %next : f32\n}\n";
}

/// %next, of %p = %acc and each of the tile's first elements %u in turn; `body` yields the next %p.
std::string throughTile(const std::string& end, const std::string& body) {
  return "%next = tgk.for %j = 0 to(" + end + ") iter_args(%p = %acc) : f32 {\n%u = tgk.load %s[%j] : f32\n" +
         body + "}\n";
}

/// o[g] = Σ over the trips of a loop of 8 invocations' terms, which read a tile that `fill` fills at trip %k.
/// Of %x they see element %v = x[k][l].
KernelGradCase tileOfTrips(const std::string& fill, const std::string& read, int64_t trips = 5,
                           const std::string& before = {}) {
  KernelGradCase test;
  test.text = tileKernel("?x8", "8",
                         before + tileLoop(fill, read + "%next = tgk.add %acc, %term : f32\n") +
                             "tgk.store %sum, %o[%l]\n");
  test.arrays = {{"x", drawn({trips, 8}, 4)}, {"o", room({8})}};
  return test;
}

const std::string kFill = "%v = tgk.load %x[%k, %l] : f32\ntgk.store %v, %s[%l]\n";
/// A product of neighbours in the tile, whose factors the gradient needs, in a loop.
const std::string kRead = R"(%term = tgk.for %j = 0 to(8) iter_args(%p = 0.0) : f32 {
  %j1 = tgk.add %j, %l : u32
  %j2 = tgk.mod %j1, 8 : u32
  %u = tgk.load %s[%j] : f32
  %w = tgk.load %s[%j2] : f32
  %q = tgk.fma %u, %w, %p : f32
  tgk.yield %q : f32
}
)";

/// Two halves of the tile take turns, so that one barrier a trip is enough.
KernelGradCase inTurn(KernelGradCase test) {
  std::string& text = test.text;
  auto replaceAll = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replaceAll("buf<8xf32, shared>", "buf<2x8xf32, shared>");
  replaceAll("%s[", "%s[%half, ");
  replaceAll("%v = tgk.load %x[%k", "%half = tgk.and %k, 1 : u32\n%v = tgk.load %x[%k");
  text.erase(text.rfind("tgk.barrier\n"), 12);
  return test;
}

/// The inner loop's states depend on its tiles, and are computed again in each trip of the outer loop
/// backward: the tiles are filled for that and then once more.
KernelGradCase underALoop() {
  KernelGradCase test;
  const std::string again = R"(%m = tgk.mul %u, %p : f32
%q = tgk.sin %m : f32
%q1 = tgk.add %q, 0.5 : f32
tgk.yield %q1 : f32
)";
  test.text = tileKernel("?x8", "2x8",
                         "tgk.for %r = 0 to(2) {\n" + tileLoop(kFill, throughTile("8", again)) +
                             "tgk.store %sum, %o[%r, %l]\n}\n");
  test.arrays = {{"x", drawn({3, 8}, 6)}, {"o", room({2, 8})}};
  return test;
}

/// The last trip fills and reads only as much as there is.
KernelGradCase tail() {
  KernelGradCase test;
  const std::string fill = R"(%at = tgk.add %k, %l : u32
%in = tgk.lt %at, %n : bool
tgk.if %in {
  %v = tgk.load %x[%at] : f32
  tgk.store %v, %s[%l]
}
)";
  const std::string end = "%left = tgk.sub %n, %k : u32\n%end = tgk.min %left, 8 : u32\n";
  const std::string squares = R"(%w = tgk.mul %u, %u : f32
%q = tgk.add %w, %p : f32
tgk.yield %q : f32
)";
  test.text = tileKernel(
      "?", "8", tileLoop(fill, end + throughTile("%end", squares), "step(8) ") + "tgk.store %sum, %o[%l]\n");
  test.arrays = {{"x", drawn({19}, 5)}, {"o", room({8})}};
  return test;
}

std::vector<NamedKernelGrad> filledAgain() {
  // Both sides of an if store to the same element.
  const std::string zeroFilled = R"(%k3 = tgk.mul %k, 3 : u32
%kl = tgk.lt %l, %k3 : bool
tgk.if %kl {
  %v = tgk.load %x[%k, %l] : f32
  %i = tgk.sub 7, %l : u32
  tgk.store %v, %s[%i]
} else {
  %i = tgk.sub 7, %l : u32
  tgk.store 0.5, %s[%i]
}
)";
  // Half of the invocations fill two elements each, in a loop.
  const std::string half = R"(%few = tgk.lt %l, 4 : bool
tgk.if %few {
  tgk.for %h = 0 to(2) {
    %h4 = tgk.mul %h, 4 : u32
    %at = tgk.add %h4, %l : u32
    %v = tgk.load %x[%k, %at] : f32
    %e = tgk.exp %v : f32
    tgk.store %e, %s[%at]
  }
}
)";
  // A second tile is made of the first.
  const std::string twoTiles = kFill + R"(tgk.barrier
%l1 = tgk.add %l, 1 : u32
%l2 = tgk.mod %l1, 8 : u32
%f = tgk.load %s[%l2] : f32
%f2 = tgk.mul %f, %f : f32
tgk.store %f2, %r[%l]
)";
  const std::string readTwo = R"(%term = tgk.for %j = 0 to(8) iter_args(%p = 0.0) : f32 {
  %u = tgk.load %s[%j] : f32
  %w = tgk.load %r[%j] : f32
  %q = tgk.fma %u, %w, %p : f32
  %q2 = tgk.sin %q : f32
  tgk.yield %q2 : f32
}
)";
  // The tile takes what the loop carries: kept once for each trip, not for each load.
  const std::string carried = R"(%v = tgk.load %x[%k, %l] : f32
%c = tgk.tanh %acc : f32
%vc = tgk.mul %v, %c : f32
%vp = tgk.add %vc, %v : f32
tgk.store %vp, %s[%l]
)";
  // The same tile holds one thing after the other.
  const std::string firstRead = R"(%one = tgk.for %j = 0 to(8) iter_args(%p = 0.0) : f32 {
  %u = tgk.load %s[%j] : f32
  %q = tgk.fma %u, %u, %p : f32
  tgk.yield %q : f32
}
tgk.barrier
)";
  const std::string refilled = R"(%e2 = tgk.mul %v, 2.0 : f32
%r = tgk.sub 7, %l : u32
tgk.store %e2, %s[%r]
)";
  const std::string readBoth = R"(%two = tgk.for %j = 0 to(8) iter_args(%p = %one) : f32 {
  %u = tgk.load %s[%j] : f32
  %q = tgk.fma %u, %p, 0.5 : f32
  tgk.yield %q : f32
}
%term = tgk.mul %two, 0.01 : f32
)";
  return {
      {"TileFilledWithZeros", tileOfTrips(zeroFilled, kRead)},
      {"TileFilledByHalf", tileOfTrips(half, kRead)},
      {"TileFilledFromATile", tileOfTrips(twoTiles, readTwo, 4, "%r = tgk.shared : buf<8xf32, shared>\n")},
      {"TileOfCarriedValues", tileOfTrips(carried, kRead, 3)},
      {"TileOfNoTrips", tileOfTrips(kFill, kRead, 1)},
      {"TileFilledTwice", tileOfTrips(kFill + "tgk.barrier\n" + firstRead + refilled, readBoth, 3)},
      {"TileFilledInTurn", inTurn(tileOfTrips(kFill, kRead, 4))},
      {"TileFilledToItsTail", tail()},
      {"TileUnderALoop", underALoop()},
      {"TileFilledInPlace", tileOfTrips(kFill + R"(tgk.barrier
%m = tgk.load %s[%l] : f32
%m2 = tgk.exp %m : f32
tgk.store %m2, %s[%l]
)",
                                        kRead, 3)},
  };
}

std::vector<NamedKernelGrad> keptStill() {
  // Every other trip reads what the trip before left.
  const std::string everyOther = R"(%odd = tgk.and %k, 1 : u32
%even = tgk.eq %odd, 0 : bool
tgk.if %even {
  %v = tgk.load %x[%k, %l] : f32
  tgk.store %v, %s[%l]
}
)";
  // A ring: each trip replaces one element.
  const std::string ring = R"(%place = tgk.mod %k, 8 : u32
%mine = tgk.eq %l, %place : bool
tgk.if %mine {
  %v = tgk.load %x[%k, %l] : f32
  tgk.store %v, %s[%l]
}
)";
  auto prefilled = [](KernelGradCase test) {
    size_t at = test.text.find("%sum = tgk.for");
    test.text.insert(at, "tgk.store 0.25, %s[%l]\ntgk.barrier\n");
    return test;
  };
  return {
      {"TileKeptEveryOtherTrip", tileOfTrips(everyOther, kRead)},
      {"TileKeptRing", prefilled(tileOfTrips(ring, kRead, 11))},
      {"TileKeptRingWithoutAStart", tileOfTrips(ring, R"(%seen = tgk.le %l, %k : bool
%term = tgk.if %seen : f32 {
  %t = tgk.for %j = 0 to(1) iter_args(%p = 0.0) : f32 {
    %at = tgk.add %l, %j : u32
    %u = tgk.load %s[%at] : f32
    %q = tgk.fma %u, %u, %p : f32
    tgk.yield %q : f32
  }
  tgk.yield %t : f32
} else {
  tgk.yield 0.0
}
)",
                                                11)},
  };
}

std::vector<NamedKernelGrad> products() {
  std::vector<NamedKernelGrad> out;
  struct Size {
    int64_t m, k, n, side, depth;
  };
  for (const Size& it :
       {Size{4, 4, 4, 2, 2}, {5, 7, 3, 4, 4}, {5, 9, 6, 4, 2}, {3, 10, 5, 2, 8}, {6, 1, 7, 4, 3}})
    out.push_back({fmt::format("TiledProduct{}x{}x{}By{}x{}", it.m, it.k, it.n, it.side, it.depth),
                   tiledProduct(it.m, it.k, it.n, it.side, it.depth)});
  return out;
}

}  // namespace

std::vector<NamedKernelGrad> tileKernels() {
  std::vector<NamedKernelGrad> out;
  for (auto&& group : {filledAgain(), keptStill(), products()})
    out.insert(out.end(), group.begin(), group.end());
  return out;
}

}  // namespace tg::test
