// SPDX-License-Identifier: Apache-2.0
// The statements and buffers of random kernels.
#include "test/unit/random_kernels.h"

#include <fmt/format.h>

#include "test/unit/kernel_writer.h"

namespace tg::test {
namespace {

/// Memory that the generator knows how to use without races.
struct Memory {
  enum class Kind : uint8_t { own, exchanged, sums };
  Kind kind = Kind::own;  ///< touched by one invocation; written by one between barriers; only added to
  std::string name;
  std::string prefix;   ///< indices before the last: "%i, " or "%g, " or ""
  int extent = 1;       ///< of the last axis
  bool atomic = false;  ///< exchanged: atomics are allowed on it
};

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), text_(random_) {}
  KernelGradCase run(uint64_t seed);

 private:
  void launch();
  void inputs();
  void memory();
  void results();
  void parameter(const std::string& name, const std::string& element, Shape shape, const char* mode,
                 KernelArray array);
  KernelArray values(Shape shape, int lanes = 1);
  void begin();
  void initialise(const Memory& memory);
  void statements(int count);
  void statement();
  void load();
  void guardedLoad();
  void loop();
  void branch();
  void access();
  void exchanged();
  void exchange(const Memory& memory);
  void histogram(const Memory& memory);
  void broadcast(const Memory& memory);
  void collective();
  void stopped();
  void finish();
  struct Carried {
    enum Kind : uint8_t { number, vector, integer } kind;
    std::string result, inner;
  };
  std::vector<Carried> carry();
  static std::string typeOf(const Carried& carried);
  std::string valueOf(const Carried& carried);
  void declare(const Carried& carried, const std::string& name);
  void scratch();
  void cursor();
  void call();
  bool has(Memory::Kind kind) const;
  const Memory& any(Memory::Kind kind);

  KernelRandom random_;
  KernelText text_;
  KernelGradCase case_;
  std::string params_, head_;
  int lanes_ = 4, groups_ = 1, rows_ = 4;
  bool uniform_ = true;  ///< the statement being written runs in all invocations of a workgroup
  int nesting_ = 0, budget_ = 0;
  bool cursor_ = false;  ///< %cur holds an integer
  bool calls_ = false;   ///< @bend is called
  struct Input {
    std::string name;
    Shape shape;
    int lanes;
  };
  std::vector<Input> inputs_;
  std::vector<Memory> memory_;
  struct Output {
    std::string name;
    int trips;  ///< 0: one element for each invocation
  };
  std::vector<Output> outputs_;
};

KernelArray Generator::values(Shape shape, int lanes) {
  KernelArray out{shape, {}};
  for (int64_t i = 0; i < shape.elements() * lanes; ++i) out.values.push_back(random_.value());
  return out;
}

void Generator::parameter(const std::string& name, const std::string& element, Shape shape, const char* mode,
                          KernelArray array) {
  std::string extents;
  for (int axis = 0; axis < shape.rank(); ++axis)
    extents += random_.chance(40) ? "?x" : fmt::format("{}x", shape[axis]);
  params_ += fmt::format("{}%{}: buf<{}{}, {}>", params_.empty() ? "" : ", ", name, extents, element, mode);
  case_.arrays[name] = std::move(array);
}

void Generator::launch() {
  lanes_ = random_.of(std::vector<int>{1, 2, 4, 4, 4, 8});
  groups_ = random_.between(1, 3);
  rows_ = lanes_ * groups_;
  if (lanes_ > 1 && random_.chance(30)) rows_ -= random_.between(1, lanes_ - 1);
  bool square = lanes_ >= 4 && random_.chance(20);
  head_ = square ? fmt::format("workgroup({}, 2) grid({})", lanes_ / 2, groups_)
                 : fmt::format("workgroup({}) grid({})", lanes_, groups_);
  if (square) {
    text_.line("%lx = tgk.local_id 0 : u32");
    text_.line("%ly = tgk.local_id 1 : u32");
    text_.line(fmt::format("%lr = tgk.mul %ly, {} : u32", lanes_ / 2));
    text_.line("%l = tgk.add %lr, %lx : u32");
  } else {
    text_.line("%l = tgk.local_id 0 : u32");
  }
  text_.line("%g = tgk.workgroup_id 0 : u32");
  text_.line(fmt::format("%gl = tgk.mul %g, {} : u32", lanes_));
  text_.line("%i = tgk.add %gl, %l : u32");
  text_.addInt("%g", true);
  text_.addInt("%l", false);
  text_.addInt("%i", false);
}

void Generator::inputs() {
  int count = random_.between(1, 3);
  for (int at = 0; at < count; ++at) {
    std::string name = fmt::format("x{}", at);
    Shape shape = random_.chance(35) ? Shape{random_.between(2, 4), random_.between(1, 3)}
                                     : Shape{random_.between(1, 9)};
    int lanes = random_.chance(20) ? random_.chance(50) ? 4 : 2 : 1;
    std::string element = lanes > 1 ? fmt::format("vec{}<f32>", lanes) : random_.chance(12) ? "f16" : "f32";
    parameter(name, element, shape, "in", values(shape, lanes));
    case_.wrt.push_back(name);
    inputs_.push_back({name, shape, lanes});
  }
  KernelArray numbers{{random_.between(3, 8)}, {}};
  for (int64_t i = 0; i < numbers.shape[0]; ++i) numbers.values.push_back(random_.below(7));
  parameter("n", "u32", numbers.shape, "in", numbers);
  parameter("z", "f32", {4}, "in", values({4}));
}

/// Memory of each kind, or of none.
void Generator::memory() {
  using enum Memory::Kind;
  if (random_.chance(45)) {
    int extent = random_.between(1, 4);
    text_.line(fmt::format("%m = tgk.local : buf<{}xf32, local>", extent));
    memory_.push_back({own, "%m", "", extent, false});
  }
  if (random_.chance(30)) {
    int extent = random_.between(1, 3);
    Shape shape{rows_, extent};
    bool tape = random_.chance(50);
    parameter("t", "f32", shape, tape ? "tape" : "inout", tape ? KernelArray{shape, {}} : values(shape));
    if (!tape) case_.wrt.push_back("t"), case_.of.push_back("t");
    memory_.push_back({own, "%t", "%i, ", extent, false});
  }
  if (rows_ == lanes_ * groups_ && random_.chance(45)) {
    text_.line(fmt::format("%s = tgk.shared : buf<{}xf32, shared>", lanes_));
    memory_.push_back({exchanged, "%s", "", lanes_, true});
  }
  if (rows_ == lanes_ * groups_ && random_.chance(20)) {
    Shape shape{groups_, lanes_};
    bool tape = random_.chance(50);
    parameter("e", "f32", shape, tape ? "tape" : "inout", tape ? KernelArray{shape, {}} : values(shape));
    if (!tape) case_.wrt.push_back("e"), case_.of.push_back("e");
    memory_.push_back({exchanged, "%e", "%g, ", lanes_, true});
  }
  if (random_.chance(40)) {
    int extent = random_.between(1, 4);
    parameter("a", "f32", {extent}, "accum", {{extent}, {}});
    case_.of.push_back("a");
    memory_.push_back({sums, "%a", "", extent, true});
  }
}

void Generator::results() {
  int count = random_.between(1, 2);
  for (int at = 0; at < count; ++at) {
    std::string name = fmt::format("o{}", at);
    int trips = random_.chance(25) ? random_.between(1, 3) : 0;
    Shape shape = trips ? Shape{rows_, trips} : Shape{rows_};
    parameter(name, random_.chance(10) ? "f16" : "f32", shape, "out", {shape, {}});
    if (at == 0 || random_.chance(80)) case_.of.push_back(name);
    outputs_.push_back({name, trips});
  }
}

void Generator::initialise(const Memory& memory) {
  if (memory.kind != Memory::Kind::own) return;
  if (memory.name == "%t" && case_.arrays.at("t").values.size() && random_.chance(60)) return;  // has values
  if (memory.extent > 1 && random_.chance(40)) {
    std::string k = text_.fresh("k");
    text_.open(fmt::format("tgk.for {} = 0 to({})", k, memory.extent));
    text_.addInt(k, true);
    text_.line(fmt::format("tgk.store {}, {}[{}{}]", text_.number(4, 30), memory.name, memory.prefix, k));
    text_.close();
    return;
  }
  for (int at = 0; at < memory.extent; ++at)
    text_.line(fmt::format("tgk.store {}, {}[{}{}]", text_.number(4, 30), memory.name, memory.prefix, at));
}

void Generator::load() {
  if (random_.chance(15)) {
    std::string at =
        text_.index(static_cast<int>(case_.arrays.at("n").shape[0]), uniform_ && random_.chance(50));
    bool fixed = at[0] != '%';
    text_.addInt(text_.let(fmt::format("tgk.load %n[{}] : u32", at), "u"), fixed);
    return;
  }
  const Input& input = random_.of(inputs_);
  std::string at;
  for (int axis = 0; axis < input.shape.rank(); ++axis)
    at += (axis ? ", " : "") + text_.index(static_cast<int>(input.shape[axis]));
  std::string type = input.lanes > 1 ? fmt::format("vec{}<f32>", input.lanes) : "f32";
  text_.addFloat({text_.let(fmt::format("tgk.load %{}[{}] : {}", input.name, at, type)), input.lanes, 2});
}

/// A load of an element that may not be there, behind the guard that says whether it is: the place of the
/// workgroup or the invocation, an integer of the data, or a constant against the extent.
void Generator::guardedLoad() {
  std::vector<Input> rows;
  for (const Input& input : inputs_)
    if (input.lanes == 1 && input.shape.rank() == 1) rows.push_back(input);
  if (rows.empty()) return load();
  const Input& input = random_.of(rows);
  std::string extent = std::to_string(input.shape[0]);
  if (random_.chance(70)) extent = text_.let(fmt::format("tgk.dim %{}, 0 : u32", input.name), "u");
  std::string at = text_.integer(random_.chance(60), 15);
  if (at[0] != '%' || random_.chance(40))
    at = text_.let(fmt::format("tgk.add {}, {} : u32", at, random_.below(6)), "u");
  std::string cond = text_.let(fmt::format("tgk.lt {}, {} : bool", at, extent), "c");
  std::string otherwise = text_.number(2, 0), read = text_.fresh("r");
  text_.open(fmt::format("{} = tgk.if {} : f32", read, cond));
  std::string value = text_.let(fmt::format("tgk.load %{}[{}] : f32", input.name, at));
  if (random_.chance(70)) value = text_.let(fmt::format("tgk.sin {} : f32", value));
  text_.line(fmt::format("tgk.yield {} : f32", value));
  text_.otherwise();
  text_.line(fmt::format("tgk.yield {} : f32", otherwise));
  text_.close();
  text_.addFloat({read, 1, 2});
}

bool Generator::has(Memory::Kind kind) const {
  for (const Memory& memory : memory_)
    if (memory.kind == kind) return true;
  return false;
}

const Memory& Generator::any(Memory::Kind kind) {
  std::vector<const Memory*> all;
  for (const Memory& memory : memory_)
    if (memory.kind == kind) all.push_back(&memory);
  return *random_.of(all);
}

/// Reads and writes of memory that one invocation has to itself, and sums of all.
void Generator::access() {
  bool own = has(Memory::Kind::own), sums = has(Memory::Kind::sums);
  if (sums && (!own || random_.chance(25))) {
    const Memory& memory = any(Memory::Kind::sums);
    std::string value = text_.number(4, 0);
    text_.line(fmt::format("tgk.atomic_add {}, {}[{}]", value, memory.name, text_.index(memory.extent)));
    return;
  }
  if (!own) return load();
  const Memory& memory = any(Memory::Kind::own);
  std::string place = fmt::format("{}[{}{}]", memory.name, memory.prefix, text_.index(memory.extent));
  int kind = random_.below(10);
  if (kind < 5) return text_.addFloat({text_.let(fmt::format("tgk.load {} : f32", place)), 1, 16});
  if (kind < 8) return text_.line(fmt::format("tgk.store {}, {}", text_.number(4), place));
  if (kind < 9) return text_.line(fmt::format("tgk.accumulate {}, {}", text_.number(1), place));
  std::string old = text_.let(fmt::format("tgk.load {} : f32", place));
  std::string next = text_.let(fmt::format("tgk.mul {}, {} : f32", old, text_.number(1)));
  std::string bounded = text_.let(fmt::format("tgk.sin {} : f32", next));
  text_.line(fmt::format("tgk.store {}, {}", bounded, place));
}

/// Each invocation writes its slot; a barrier; each reads other slots; a barrier.
void Generator::exchange(const Memory& memory) {
  std::string slot =
      random_.chance(70) ? "%l" : text_.let(fmt::format("tgk.sub {}, %l : u32", lanes_ - 1), "u");
  text_.line(fmt::format("tgk.store {}, {}[{}{}]", text_.number(4), memory.name, memory.prefix, slot));
  text_.line("tgk.barrier");
  for (int reads = random_.between(1, 2); reads > 0; --reads) {
    std::string at = random_.chance(50)
                         ? text_.let(fmt::format("tgk.add %l, {} : u32", random_.between(0, 3)), "u")
                         : text_.integer(false, 10);
    std::string near = text_.let(fmt::format("tgk.mod {}, {} : u32", at, lanes_), "u");
    text_.addFloat(
        {text_.let(fmt::format("tgk.load {}[{}{}] : f32", memory.name, memory.prefix, near)), 1, 4});
  }
  text_.line("tgk.barrier");
}

/// Slots are initialized, all invocations add to some; a barrier; all read.
void Generator::histogram(const Memory& memory) {
  text_.line(fmt::format("tgk.store {}, {}[{}%l]", random_.chance(50) ? "0.0" : text_.number(4), memory.name,
                         memory.prefix));
  text_.line("tgk.barrier");
  std::string value = text_.number(1, 0);
  text_.line(
      fmt::format("tgk.atomic_add {}, {}[{}{}]", value, memory.name, memory.prefix, text_.index(lanes_)));
  text_.line("tgk.barrier");
  text_.addFloat({text_.let(fmt::format("tgk.load {}[{}%l] : f32", memory.name, memory.prefix)), 1, 12});
  text_.line("tgk.barrier");
}

/// One invocation speaks, all listen.
void Generator::broadcast(const Memory& memory) {
  std::string who = text_.let(fmt::format("tgk.eq %l, {} : bool", random_.below(lanes_)), "c");
  text_.open("tgk.if " + who);
  text_.arithmetic();
  text_.line(fmt::format("tgk.store {}, {}[{}0]", text_.number(4, 0), memory.name, memory.prefix));
  text_.close();
  text_.line("tgk.barrier");
  text_.addFloat({text_.let(fmt::format("tgk.load {}[{}0] : f32", memory.name, memory.prefix)), 1, 4});
  text_.line("tgk.barrier");
}

void Generator::exchanged() {
  const Memory& memory = any(Memory::Kind::exchanged);
  switch (random_.below(4)) {
  case 0: return histogram(memory);
  case 1: return broadcast(memory);
  default: return exchange(memory);
  }
}

void Generator::collective() {
  std::string a = text_.number(4, 0);
  static const std::vector<std::string> kKinds{"add", "add", "max", "min"};
  if (lanes_ % 4 == 0 && random_.chance(40)) {
    if (random_.chance(50)) {
      text_.addFloat(
          {text_.let(fmt::format("tgk.subgroup_reduce {} {{kind = {}}} : f32", a, random_.of(kKinds))), 1,
           16});
      return;
    }
    std::string lane = text_.let("tgk.subgroup_lane : u32", "u");
    std::string from = text_.let(
        fmt::format("tgk.{} {}, {} : u32", random_.chance(50) ? "xor" : "and", lane, random_.between(1, 3)),
        "u");
    text_.addFloat({text_.let(fmt::format("tgk.subgroup_shuffle {}, {} : f32", a, from)), 1, 4});
    return;
  }
  text_.addFloat(
      {text_.let(fmt::format("tgk.workgroup_reduce {} {{kind = {}}} : f32", a, random_.of(kKinds))), 1, 32});
}

/// A value without gradient, of an input that none is asked of: differences see the same.
void Generator::stopped() {
  std::string z = text_.let(fmt::format("tgk.load %z[{}] : f32", text_.index(4)));
  std::string e = text_.let(fmt::format("tgk.{} {} : f32", random_.chance(50) ? "exp" : "tanh", z));
  text_.addFloat({text_.let(fmt::format("tgk.stop_gradient {} : f32", e)), 1, 8});
}

void Generator::branch() {
  bool uniform = uniform_ && random_.chance(40);
  std::string cond = text_.condition(uniform);
  int results = random_.below(3);
  std::string names, types;
  std::vector<std::string> fresh;
  for (int at = 0; at < results; ++at) {
    fresh.push_back(text_.fresh("r"));
    names += (at ? ", " : "") + fresh.back();
    types += at ? ", f32" : "f32";
  }
  bool was = std::exchange(uniform_, uniform);
  ++nesting_;
  text_.open(results ? fmt::format("{} = tgk.if {} : {}", names, cond, types) : "tgk.if " + cond);
  auto body = [&] {
    statements(random_.between(1, 4));
    std::string yields;
    for (int at = 0; at < results; ++at) yields += (at ? ", " : "") + text_.number(4);
    std::string of;  // types stand for values alone, as the printer writes them
    for (int at = 0; at < results; ++at) of += at ? ", f32" : "f32";
    if (results) text_.line(fmt::format("tgk.yield {} : {}", yields, of));
  };
  body();
  if (results || random_.chance(50)) {
    text_.otherwise();
    body();
  }
  text_.close();
  --nesting_;
  uniform_ = was;
  for (const std::string& name : fresh) text_.addFloat({name, 1, 4});
}

void Generator::loop() {
  bool uniform = uniform_ && random_.chance(70);
  std::string to = std::to_string(random_.below(5));
  if (random_.chance(40)) to = text_.index(5, uniform);
  std::string from = std::to_string(random_.chance(25) ? random_.between(1, 2) : 0);
  int step = random_.chance(25) ? random_.between(2, 3) : 1;
  // The invocations of a workgroup share data that may be narrower than it is.
  bool strided = random_.chance(20);
  if (strided) from = "%l", step = lanes_;
  if (to[0] != '%') uniform = uniform_;
  if (strided) uniform = false;
  std::vector<Carried> carried = carry();
  std::string names, types, args;
  for (const Carried& each : carried) {
    append(names, each.result);
    append(types, typeOf(each));
    append(args, fmt::format("{} = {}", each.inner, valueOf(each)));
  }
  std::string k = text_.fresh("k");
  std::string header = fmt::format("tgk.for {} = {} to({})", k, from, to);
  if (step > 1) header += fmt::format(" step({})", step);
  if (!carried.empty()) header = fmt::format("{} = {} iter_args({}) : {}", names, header, args, types);
  bool was = std::exchange(uniform_, uniform);
  ++nesting_;
  text_.open(header);
  text_.addInt(k, uniform);
  for (const Carried& each : carried) declare(each, each.inner);
  statements(random_.between(1, 5));
  std::string yields;
  for (const Carried& each : carried) append(yields, valueOf(each));
  if (!carried.empty()) text_.line(fmt::format("tgk.yield {} : {}", yields, types));
  text_.close();
  --nesting_;
  uniform_ = was;
  for (const Carried& each : carried) declare(each, each.result);
}

/// What a loop carries: mostly floats, sometimes a vector or an integer.
std::vector<Generator::Carried> Generator::carry() {
  std::vector<Carried> out;
  for (int count = random_.below(3); count > 0; --count) {
    int kind = random_.below(10);
    out.push_back({kind < 7   ? Carried::number
                   : kind < 8 ? Carried::vector
                              : Carried::integer,
                   text_.fresh("r"), text_.fresh("b")});
  }
  return out;
}

std::string Generator::typeOf(const Carried& carried) {
  return carried.kind == Carried::number ? "f32" : carried.kind == Carried::vector ? "vec4<f32>" : "u32";
}

/// A value in scope of a carried value's type.
std::string Generator::valueOf(const Carried& carried) {
  if (carried.kind == Carried::number) return text_.number(4, 3);
  if (carried.kind == Carried::integer)
    return text_.let(fmt::format("tgk.add {}, 1 : u32", text_.integer(false, 0)), "u");
  std::string known = text_.vector(4, 4);
  return known.empty() ? text_.let(fmt::format("tgk.vec {}, {}, {}, 0.5 : vec4<f32>", text_.number(4),
                                               text_.number(4), text_.number(4)),
                                   "w")
                       : known;
}

void Generator::declare(const Carried& carried, const std::string& name) {
  if (carried.kind == Carried::integer) return text_.addInt(name, false);
  text_.addFloat({name, carried.kind == Carried::vector ? 4 : 1, 4});
}

/// Memory that lives in one body: written, stepped on, read.
void Generator::scratch() {
  std::string memory = text_.let("tgk.local : buf<2xf32, local>", "q");
  text_.line(fmt::format("tgk.store {}, {}[0]", text_.number(4, 0), memory));
  text_.line(fmt::format("tgk.store {}, {}[1]", text_.number(4), memory));
  std::string k = text_.fresh("k");
  text_.open(fmt::format("tgk.for {} = 0 to({})", k, random_.between(0, 3)));
  std::string a = text_.let(fmt::format("tgk.load {}[0] : f32", memory));
  std::string at = text_.let(fmt::format("tgk.mod {}, 2 : u32", k), "u");
  std::string b = text_.let(fmt::format("tgk.load {}[{}] : f32", memory, at));
  std::string p = text_.let(fmt::format("tgk.fma {}, {}, {} : f32", a, b, text_.number(2)));
  std::string q = text_.let(fmt::format("tgk.sin {} : f32", p));
  text_.line(fmt::format("tgk.store {}, {}[{}]", q, memory, at));
  text_.close();
  text_.addFloat({text_.let(fmt::format("tgk.load {}[{}] : f32", memory, text_.index(2))), 1, 4});
}

/// An index that lives in memory and moves on.
void Generator::cursor() {
  std::string old = text_.let("tgk.load %cur[0] : u32", "u");
  std::string next = text_.let(fmt::format("tgk.add {}, {} : u32", old, text_.integer(false)), "u");
  std::string bounded = text_.let(fmt::format("tgk.mod {}, 7 : u32", next), "u");
  text_.line(fmt::format("tgk.store {}, %cur[0]", bounded));
  text_.addInt(old, false);
}

void Generator::call() {
  std::string a = text_.number(4, 0), b = text_.number(4, 0);
  if (a[0] != '%' || b[0] != '%') return;
  calls_ = true;
  text_.addFloat({text_.let(fmt::format("tgk.call @bend({}, {}) : f32", a, b)), 1, 18});
}

void Generator::statement() {
  --budget_;
  int kind = random_.below(100);
  if (kind < 28) return text_.arithmetic();
  if (kind < 31) return scratch();
  if (kind < 32) return call();
  if (kind < 34 && cursor_) return cursor();
  if (kind < 38) return guardedLoad();
  if (kind < 46) return load();
  if (kind < 62) return access();
  if (kind < 72 && nesting_ < 3 && budget_ > 0) return loop();
  if (kind < 82 && nesting_ < 3 && budget_ > 0) return branch();
  if (kind < 91 && uniform_ && has(Memory::Kind::exchanged)) return exchanged();
  if (kind < 95 && uniform_) return collective();
  if (kind < 97) return stopped();
  text_.arithmetic();
}

void Generator::statements(int count) {
  for (int at = 0; at < count; ++at) statement();
}

void Generator::begin() {
  if (rows_ < lanes_ * groups_) {
    text_.line(fmt::format("%in = tgk.lt %i, {} : bool", rows_));
    text_.open("tgk.if %in");
    uniform_ = false;
  }
  const Input& first = inputs_[0];  // some scalar is in scope from here on
  std::string zeros = first.shape.rank() == 1 ? "0" : "0, 0";
  if (first.lanes == 1) {
    text_.addFloat({text_.let(fmt::format("tgk.load %{}[{}] : f32", first.name, zeros)), 1, 2});
  } else {
    std::string v = text_.let(fmt::format("tgk.load %{}[{}] : vec{}<f32>", first.name, zeros, first.lanes));
    text_.addFloat({text_.let(fmt::format("tgk.extract {}, 1 : f32", v)), 1, 2});
  }
  for (int at = 0; at < 2; ++at) load();
  for (const Memory& memory : memory_) initialise(memory);
  cursor_ = random_.chance(25);
  if (!cursor_) return;
  text_.line("%cur = tgk.local : buf<1xu32, local>");
  text_.line("tgk.store 2, %cur[0]");
}

void Generator::finish() {
  for (const Output& output : outputs_) {
    if (output.trips == 0) {
      std::string sum = text_.let(
          fmt::format("tgk.fma {}, {}, {} : f32", text_.number(4, 0), text_.number(4), text_.number(4, 0)));
      std::string at =
          random_.chance(25) ? text_.let(fmt::format("tgk.sub {}, %i : u32", rows_ - 1), "u") : "%i";
      text_.line(fmt::format("tgk.store {}, %{}[{}]", sum, output.name, at));
      continue;
    }
    std::string k = text_.fresh("k");
    text_.open(fmt::format("tgk.for {} = 0 to({})", k, output.trips));
    text_.addInt(k, true);
    ++nesting_;
    statements(2);
    --nesting_;
    text_.line(fmt::format("tgk.store {}, %{}[%i, {}]", text_.number(4, 0), output.name, k));
    text_.close();
  }
  if (rows_ < lanes_ * groups_) text_.close();
}

KernelGradCase Generator::run(uint64_t seed) {
  case_.seed = seed;
  case_.samples = 6;
  case_.f32Tolerance = 1e-3;
  budget_ = 18;
  launch();
  inputs();
  memory();
  results();
  begin();
  statements(random_.between(3, 9));
  finish();
  if (case_.wrt.size() > 1 && random_.chance(15)) case_.wrt.pop_back();
  if (random_.chance(25)) case_.checkpoint = random_.between(1, 3);
  if (calls_)
    case_.text =
        "func @bend(%p: f32, %q: f32) -> (y: f32) {\n  %s = tgk.sin %p : f32\n  %y = tgk.fma %s, %q, %p : "
        "f32\n  return %y : f32\n}\n";
  case_.text += fmt::format("kernel @k({}) {} {{\n{}}}", params_, head_, text_.body());
  return std::move(case_);
}

}  // namespace

KernelGradCase randomKernel(uint64_t seed) { return Generator(seed).run(seed); }

}  // namespace tg::test
