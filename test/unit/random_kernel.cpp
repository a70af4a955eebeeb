// SPDX-License-Identifier: Apache-2.0
#include "test/unit/random_kernel.h"

#include <fmt/format.h>

#include <array>
#include <random>
#include <vector>

namespace tg::test {
namespace {

constexpr int kLanes = 8, kResults = 6, kStatements = 22, kDepth = 3;

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}
  std::string run();

 private:
  enum Kind : uint8_t { f32, u32, i32, boolean };
  static constexpr size_t kKinds = 4;
  using Scope = std::array<size_t, kKinds>;

  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  template <size_t N>
  std::string any(const char* const (&&list)[N]) {
    return list[below(N)];
  }
  std::string fresh() { return fmt::format("%v{}", next_++); }
  void line(const std::string& text) {
    text_ += std::string(static_cast<size_t>(2 * depth_ + 4), ' ') + text + "\n";
  }
  std::string value(Kind kind) {
    return values_[kind][static_cast<size_t>(below(static_cast<int>(values_[kind].size())))];
  }
  std::string literal(Kind kind);
  std::string operand(Kind kind) { return below(3) ? value(kind) : literal(kind); }
  std::string define(Kind kind, const std::string& op);
  Scope open() const;
  void close(const Scope& scope);

  void statement(bool uniform);
  void arithmetic();
  void integers();
  void compare();
  void convert();
  void memory();
  void branch(bool uniform);
  void loop(bool uniform);
  void exchange();
  void tree();
  void body(int statements, bool uniform);

  std::mt19937 random_;
  std::string text_;
  std::array<std::vector<std::string>, kKinds> values_;
  int next_ = 0, depth_ = 0;
};

const char* const kNames[] = {"f32", "u32", "i32", "bool"};

std::string Generator::literal(Kind kind) {
  switch (kind) {
  case f32: return any({"0.0", "-0.0", "1.0", "-1.0", "2.5", "0.1", "inf", "1e-40"});
  case u32: return any({"0", "1", "2", "3", "31", "32", "4294967295", "8"});
  case i32: return any({"0", "1", "-1", "-7", "5", "-2147483648", "33"});
  default: return any({"0", "1"});
  }
}

std::string Generator::define(Kind kind, const std::string& op) {
  std::string name = fresh();
  line(fmt::format("{} = {} : {}", name, op, kNames[kind]));
  values_[kind].push_back(name);
  return name;
}

Generator::Scope Generator::open() const {
  Scope scope;
  for (size_t kind = 0; kind < kKinds; ++kind) scope[kind] = values_[kind].size();
  return scope;
}

void Generator::close(const Scope& scope) {
  for (size_t kind = 0; kind < kKinds; ++kind) values_[kind].resize(scope[kind]);
}

void Generator::arithmetic() {
  switch (below(5)) {
  case 0: {
    define(f32, fmt::format("tgk.fma {}, {}, {}", operand(f32), operand(f32), operand(f32)));
    return;
  }
  case 1: {
    std::string op =
        any({"neg", "abs", "floor", "sqrt", "exp", "ceil", "round", "trunc", "sign", "stop_gradient"});
    define(f32, fmt::format("tgk.{} {}", op, operand(f32)));
    return;
  }
  case 2:
    define(f32, fmt::format("tgk.select {}, {}, {}", value(boolean), operand(f32), operand(f32)));
    return;
  default: {
    std::string op = any({"add", "sub", "mul", "div", "min", "max"});
    define(f32, fmt::format("tgk.{} {}, {}", op, operand(f32), operand(f32)));
  }
  }
}

void Generator::integers() {
  Kind kind = below(3) ? u32 : i32;
  if (below(5) == 0) {
    define(kind, fmt::format("tgk.{} {}",
                             any({"neg", "abs", "not", "popcount", "clz", "ctz", "reverse_bits", "sign"}),
                             operand(kind)));
    return;
  }
  std::string op = any({"add", "sub", "mul", "div", "mod", "min", "max", "and", "or", "xor", "shl", "shr"});
  if (kind == u32 && below(3) == 0)
    op = any({"mulhi", "rotl", "rotr", "add_sat", "sub_sat", "mul_sat", "abs_diff"});
  define(kind, fmt::format("tgk.{} {}, {}", op, operand(kind), operand(kind)));
}

void Generator::compare() {
  if (below(4) == 0) {
    std::string a = value(boolean);
    below(3) ? define(boolean, fmt::format("tgk.{} {}, {}", any({"and", "or", "xor"}), a, operand(boolean)))
             : define(boolean, fmt::format("tgk.not {}", a));
    return;
  }
  Kind kind = std::array{f32, u32, i32}[static_cast<size_t>(below(3))];
  std::string a = value(kind), b = operand(kind);
  if (below(2)) std::swap(a, b);
  define(boolean, fmt::format("tgk.{} {}, {}", any({"lt", "le", "gt", "ge", "eq", "ne"}), a, b));
}

void Generator::convert() {
  switch (below(6)) {
  case 0: define(f32, fmt::format("tgk.cast {}", value(below(2) ? u32 : i32))); return;
  case 1: define(u32, fmt::format("tgk.cast {}", value(below(2) ? f32 : i32))); return;
  case 2: define(i32, fmt::format("tgk.cast {}", value(below(2) ? f32 : boolean))); return;
  case 3: define(boolean, fmt::format("tgk.{} {}", any({"isnan", "isinf", "isfinite"}), value(f32))); return;
  case 4: define(i32, fmt::format("tgk.bitcast {}", value(u32))); return;
  default: {
    std::string vector = fresh();
    line(fmt::format("{} = tgk.vec {}, {} : vec2<f32>", vector, operand(f32), operand(f32)));
    define(f32, fmt::format("tgk.extract {}, {}", vector, below(2)));
  }
  }
}

void Generator::memory() {
  switch (below(6)) {
  case 0: {
    std::string at = define(u32, fmt::format("tgk.and {}, 15", value(u32)));
    define(f32, fmt::format("tgk.load %x[{}]", at));
    return;
  }
  case 1: define(i32, fmt::format("tgk.load %y[{}]", below(16))); return;
  case 2: define(f32, "tgk.load %io[%gid]"); return;
  case 3: line(fmt::format("tgk.store {}, %io[%gid]", operand(f32))); return;
  case 4: line(fmt::format("tgk.atomic_add {}, %n[{}]", operand(u32), below(4))); return;
  default:
    line(fmt::format("tgk.store {}, %mem[{}]", operand(f32), below(3)));
    define(f32, fmt::format("tgk.load %mem[{}]", below(3)));
  }
}

/// A value, or some, of a branch whose condition may be known.
void Generator::branch(bool uniform) {
  std::string cond = below(5) ? value(boolean) : literal(boolean), name = fresh();
  bool gives = below(2), same = uniform && cond[0] != '%';
  line(gives ? fmt::format("{} = tgk.if {} : f32 {{", name, cond) : fmt::format("tgk.if {} {{", cond));
  for (int side = 0; side < (gives ? 2 : 1 + below(2)); ++side) {
    if (side) line("} else {");
    Scope scope = open();
    ++depth_;
    body(1 + below(4), same);
    if (gives) line(fmt::format("tgk.yield {} : f32", operand(f32)));
    --depth_;
    close(scope);
  }
  line("}");
  if (gives) values_[f32].push_back(name);
}

void Generator::loop(bool uniform) {
  bool counted = below(3) != 0;
  std::string k = fresh(), a = fresh(), b = fresh(), p = fresh(), q = fresh();
  std::string to = counted ? std::to_string(below(4)) : define(u32, fmt::format("tgk.and {}, 3", value(u32)));
  line(fmt::format("{}, {} = tgk.for {} = {} to({}) iter_args({} = {}, {} = {}) : f32, u32 {{", a, b, k,
                   below(2), to, p, operand(f32), q, operand(u32)));
  Scope scope = open();
  values_[u32].push_back(k);
  values_[f32].push_back(p);
  values_[u32].push_back(q);
  ++depth_;
  body(1 + below(5), uniform && counted);
  line(fmt::format("tgk.yield {}, {} : f32, u32", below(4) ? operand(f32) : p, below(3) ? operand(u32) : q));
  --depth_;
  close(scope);
  line("}");
  values_[f32].push_back(a);
  values_[u32].push_back(b);
}

/// Another invocation's value by way of shared memory.
void Generator::exchange() {
  line("tgk.barrier");
  line(fmt::format("tgk.store {}, %sh[%lid]", operand(f32)));
  line("tgk.barrier");
  std::string at = define(u32, fmt::format("tgk.xor %lid, {}", below(kLanes)));
  define(f32, fmt::format("tgk.load %sh[{}]", at));
  if (below(2)) define(f32, "tgk.load %sh[0]");
  line("tgk.barrier");
}

/// A reduction: the op, or a tree by hand in one of its forms.
void Generator::tree() {
  if (below(3) == 0) {
    define(f32, fmt::format("tgk.workgroup_reduce {}", value(f32)));
    return;
  }
  std::string s = fresh(), op = any({"add", "max", "min", "mul"}), k = fresh(), w = fresh(), h = fresh(),
              j = fresh(), u0 = fresh(), u1 = fresh(), u = fresh();
  bool halving = below(3) != 0;
  if (depth_ > 0) s = "%tr";
  if (s != "%tr") line(fmt::format("{} = tgk.shared : buf<8xf32, shared>", s));
  line("tgk.barrier");
  line(fmt::format("tgk.store {}, {}[%lid]", operand(f32), s));
  line("tgk.barrier");
  line(fmt::format("tgk.for {} = 0 to(3) {{", k));
  line(halving ? fmt::format("  {} = tgk.shr 4, {} : u32", w, k)
               : fmt::format("  {} = tgk.shl 1, {} : u32", w, k));
  if (halving) {
    line(fmt::format("  {} = tgk.lt %lid, {} : bool", h, w));
  } else {
    std::string w2 = fresh(), m = fresh();
    line(fmt::format("  {} = tgk.mul {}, 2 : u32", w2, w));
    line(fmt::format("  {} = tgk.mod %lid, {} : u32", m, w2));
    line(fmt::format("  {} = tgk.eq {}, 0 : bool", h, m));
  }
  line(fmt::format("  tgk.if {} {{", h));
  line(fmt::format("    {} = tgk.add %lid, {} : u32", j, w));
  line(fmt::format("    {} = tgk.load {}[%lid] : f32", u0, s));
  line(fmt::format("    {} = tgk.load {}[{}] : f32", u1, s, j));
  line(fmt::format("    {} = tgk.{} {}, {} : f32", u, op, u0, u1));
  line(fmt::format("    tgk.store {}, {}[%lid]", u, s));
  line("  }");
  line("  tgk.barrier");
  line("}");
  define(f32, fmt::format("tgk.load {}[0]", s));
}

void Generator::statement(bool uniform) {
  int pick = below(22);
  if (pick < 5) return arithmetic();
  if (pick < 8) return integers();
  if (pick < 11) return compare();
  if (pick < 13) return convert();
  if (pick < 15) return memory();
  if (pick < 17 && depth_ < kDepth) return branch(uniform);
  if (pick < 19 && depth_ < kDepth) return loop(uniform);
  if (uniform) below(2) ? exchange() : tree();
}

void Generator::body(int statements, bool uniform) {
  for (int each = 0; each < statements; ++each) statement(uniform);
}

std::string Generator::run() {
  line("%gid = tgk.global_id 0 : u32");
  line("%lid = tgk.local_id 0 : u32");
  line("%lid1 = tgk.local_id 1 : u32");
  line("%sh = tgk.shared : buf<8xf32, shared>");
  line("%tr = tgk.shared : buf<8xf32, shared>");
  line("%mem = tgk.local : buf<3xf32, local>");
  for (int at : {0, 1, 2}) line(fmt::format("tgk.store {}.0, %mem[{}]", at, at));
  values_[u32] = {"%gid", "%lid", "%lid1"};
  define(f32, "tgk.load %x[%gid]");
  define(f32, "tgk.load %x[0]");
  define(u32, "tgk.dim %x, 0");
  define(i32, "tgk.load %y[%gid]");
  define(boolean, "tgk.lt %lid, 8");
  define(boolean, "tgk.lt %gid, 5");
  body(kStatements, true);
  for (int result = 0; result < kResults; ++result)
    line(fmt::format("tgk.store {}, %o[{}, %gid]", value(f32), result));
  line(fmt::format("tgk.store {}, %p[%gid]", value(u32)));
  line(fmt::format("tgk.store {}, %t[%gid]", value(f32)));
  return "  kernel @k(%x: buf<16xf32, in>, %y: buf<16xi32, in>, %io: buf<16xf32, inout>, %n: buf<4xu32, "
         "accum>,\n"
         "      %o: buf<6x16xf32, out>, %p: buf<16xu32, out>, %t: buf<16xf32, tape>) workgroup(8) grid(2) "
         "{\n" +
         text_ + "  }";
}

}  // namespace

std::string randomKernel(uint32_t seed) { return Generator(seed).run(); }

}  // namespace tg::test
