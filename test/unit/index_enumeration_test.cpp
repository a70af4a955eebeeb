// SPDX-License-Identifier: Apache-2.0
// Random small kernels, run in the test over all invocations: what the index analysis claims must hold.
#include <fmt/format.h>

#include <map>
#include <random>
#include <set>

#include "ir/kernel/index_analysis.h"
#include "ir/kernel/index_decode.h"
#include "test/unit/kernel_text.h"

namespace tg::test {
namespace {

/// A variable or a literal.
struct Term {
  int variable = -1;
  int64_t literal = 0;
};

/// A statement of a random kernel, which both prints and runs.
struct Statement {
  enum class Kind { op, load, store, branch, loop } kind = Kind::op;
  std::string code;  ///< of an op, or the comparison of a branch
  int target = -1;   ///< variable: of an op or load, the index of a loop
  Term a, b;         ///< operands; indices; first value and limit
  int64_t step = 1;
  int id = 0;                            ///< of a store: its place among the stores; of a branch: for names
  bool negated = false, second = false;  ///< of a branch: `not`, has an else body; of a store: two indices
  std::string extra;  ///< of a branch: a second comparison, joined by and; of a select: its comparison
  Term c, d;
  std::vector<Statement> body, other;
};

/// One execution of a store.
struct Touch {
  int lane;
  int64_t first, second;  ///< the element; second is 0 for one index
};

/// What a run did. Variables are known by their names in the text.
struct Seen {
  std::map<std::string, std::pair<int64_t, int64_t>> values;  ///< least and most
  std::vector<std::vector<Touch>> stores;                     ///< of each, in text order
  std::map<std::string, int64_t> trips;                       ///< of the loop with this index: most
};

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) { make(); }
  std::string text() const;
  Seen run() const;
  std::vector<Shape> shapes() const { return {{kTable}, {rows_}, {rows_, columns_}}; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

 private:
  static constexpr int64_t kTable = 16;
  using Variables = std::vector<int64_t>;
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return *(from.begin() + below(static_cast<int>(from.size())));
  }
  void make();
  Term term(bool isSigned);
  std::vector<Statement> statements(int count, int depth);
  Statement statement(int depth);
  Statement selection();
  Statement operation();
  int variable(bool isSigned) {
    signed_.push_back(isSigned);
    visible_.push_back(static_cast<int>(signed_.size()) - 1);
    return visible_.back();
  }
  std::string print(const Term& term) const {
    return term.variable < 0 ? std::to_string(term.literal) : fmt::format("%v{}", term.variable);
  }
  void print(const std::vector<Statement>& body, std::string& out) const;
  int64_t value(const Term& term, const Variables& at) const {
    return term.variable < 0 ? term.literal : at[static_cast<size_t>(term.variable)];
  }
  void run(const std::vector<Statement>& body, Variables& at, Seen& seen, int lane) const;
  int64_t apply(const Statement& op, const Variables& at) const;
  bool holds(const std::string& code, const Term& a, const Term& b, const Variables& at) const;
  void note(int variable, int64_t value, Seen& seen) const;

  std::mt19937 random_;
  std::vector<Statement> body_;
  std::vector<bool> signed_;
  std::vector<int> visible_;
  int64_t lanes_ = 4, lanesY_ = 1, groups_ = 2, rows_ = 8, columns_ = 8;
  bool open_ = false;
  int stores_ = 0, branches_ = 0;
};

// The first variables of every program.
enum { kGlobal, kLocal, kGroup, kLocalY, kRows, kIds };

void Program::make() {
  lanes_ = pick<int64_t>({1, 2, 4, 8});
  lanesY_ = pick<int64_t>({1, 1, 1, 2});
  groups_ = pick<int64_t>({1, 2, 3});
  rows_ = pick<int64_t>({4, 8, 13, 16, 40});
  columns_ = pick<int64_t>({2, 4, 8, 9});
  open_ = below(3) == 0;
  for (int id = 0; id < kIds; ++id) variable(false);
  body_ = statements(3 + below(5), 0);
}

Term Program::term(bool isSigned) {
  std::vector<int> fitting;
  for (int each : visible_)
    if (signed_[static_cast<size_t>(each)] == isSigned) fitting.push_back(each);
  if (fitting.empty() || below(4) == 0) return {-1, pick<int64_t>({0, 1, 2, 3, 4, 7, 8, 16})};
  // Ids and what was made last make the better programs.
  int at = below(3) == 0 ? below(static_cast<int>(fitting.size())) : static_cast<int>(fitting.size()) - 1;
  return {fitting[static_cast<size_t>(at)], 0};
}

/// One of two values, or how far one is below another, which a select keeps from wrapping around.
Statement Program::selection() {
  Statement out;
  out.code = pick<const char*>({"select", "span"});
  out.a = {pick<int>({kGlobal, kLocal, kGroup, kRows}), 0};
  out.b = term(false);
  out.c = term(false);
  out.d = term(false);
  out.extra = out.code == "span" ? "lt" : pick<const char*>({"lt", "le", "gt", "ge", "eq", "ne"});
  out.target = variable(false);
  return out;
}

Statement Program::operation() {
  Statement out;
  bool isSigned = below(6) == 0;
  out.a = term(isSigned);
  out.b = term(isSigned);
  if (below(7) == 0) return selection();
  out.code = pick<const char*>({"add", "add", "add", "sub", "mul", "mul", "div", "mod", "min", "max", "shr",
                                "shl", "and", "xor", "or", "cast"});
  if ((out.code == "mul" || out.code == "div" || out.code == "mod") && below(2) == 0)
    out.b = {-1, pick<int64_t>({1, 2, 3, 4, 8, lanes_, columns_})};
  if (out.code == "and" && below(2) == 0) out.b = {-1, pick<int64_t>({1, 3, 7})};
  if (isSigned && (out.code == "div" || out.code == "mod")) out.b = {-1, 3};  // nothing is said of i32 x/0
  if (out.a.variable < 0) out.a = isSigned ? Term{} : Term{kGlobal, 0};
  if (out.a.variable < 0) out.code = "cast", out.a = {kGlobal, 0}, isSigned = false;
  out.target = variable(out.code == "cast" ? !isSigned : isSigned);
  return out;
}

Statement Program::statement(int depth) {
  Statement out;
  int kind = below(10);
  if (kind < 5) return operation();
  if (kind == 5) {
    out.kind = Statement::Kind::load;
    out.a = term(false);
    if (out.a.variable < 0) out.a = {kGlobal, 0};
    out.target = variable(false);
    return out;
  }
  if (kind < 8 || depth == 3) {
    out.kind = Statement::Kind::store;
    out.id = stores_++;
    out.second = below(2);
    out.a = term(below(8) == 0);
    out.b = term(false);
    if (below(3) == 0) out.a = {kGlobal, 0};
    if (out.a.variable < 0) out.a.literal %= 4;
    if (out.b.variable < 0) out.b.literal %= 2;
    return out;
  }
  auto before = visible_;
  out.a = term(false);
  out.b = term(false);
  if (kind == 8) {
    out.kind = Statement::Kind::branch;
    out.id = branches_++;
    if (out.a.variable < 0) out.a = {pick<int>({kGlobal, kLocal, kGroup}), 0};
    out.code = pick<const char*>({"lt", "lt", "eq", "eq", "le", "gt", "ge", "ne"});
    out.negated = below(4) == 0;
    if (below(3) == 0) {
      out.extra = pick<const char*>({"lt", "eq", "ge"});
      out.c = {pick<int>({kGlobal, kLocal, kLocalY, kRows}), 0};
      out.d = term(false);
    }
    out.body = statements(1 + below(3), depth + 1);
    visible_ = before;
    out.second = below(3) == 0;
    if (out.second) out.other = statements(1 + below(2), depth + 1);
  } else {
    out.kind = Statement::Kind::loop;
    out.b = below(3) == 0 ? Term{kRows, 0} : Term{-1, pick<int64_t>({1, 2, 3, 4, 9})};
    if (below(2) == 0) out.a = {-1, 0};
    out.step = pick<int64_t>({1, 1, 2, lanes_});
    out.target = variable(false);
    out.body = statements(1 + below(3), depth + 1);
  }
  visible_ = before;
  return out;
}

std::vector<Statement> Program::statements(int count, int depth) {
  std::vector<Statement> out;
  for (int index = 0; index < count; ++index) out.push_back(statement(depth));
  Statement store;
  store.kind = Statement::Kind::store;
  store.id = stores_++;
  store.a = term(false);
  if (store.a.variable < 0) store.a = {kGlobal, 0};
  out.push_back(store);
  return out;
}

void Program::print(const std::vector<Statement>& body, std::string& out) const {
  for (const Statement& each : body) {
    auto type = [&] { return signed_[static_cast<size_t>(each.target)] ? "i32" : "u32"; };
    std::string target = each.target < 0 ? "" : fmt::format("%v{}", each.target);
    switch (each.kind) {
    case Statement::Kind::op:
      if (!each.extra.empty()) {
        bool span = each.code == "span";
        out +=
            fmt::format("{0}c = tgk.{1} {2}, {3} : bool\n", target, each.extra, print(each.a), print(each.b));
        if (span) out += fmt::format("{0}d = tgk.sub {1}, {2} : u32\n", target, print(each.b), print(each.a));
        out += fmt::format("{0} = tgk.select {0}c, {1}, {2} : u32\n", target,
                           span ? target + "d" : print(each.c), span ? "0" : print(each.d));
        break;
      }
      out += fmt::format("{} = tgk.{} {}{} : {}\n", target, each.code, print(each.a),
                         each.code == "cast" ? "" : ", " + print(each.b), type());
      break;
    case Statement::Kind::load:
      out += fmt::format("{0}i = tgk.and {1}, 15 : u32\n{0} = tgk.load %idx[{0}i] : u32\n", target,
                         fmt::format("%v{}", each.a.variable));
      break;
    case Statement::Kind::store:
      if (each.second)
        out += fmt::format("tgk.store 1.0, %z[{}, {}]\n", print(each.a), print(each.b));
      else
        out += fmt::format("tgk.store 1.0, %y[{}]\n", print(each.a));
      break;
    case Statement::Kind::branch: {
      std::string name = fmt::format("%c{}", each.id);
      out += fmt::format("{}a = tgk.{} {}, {} : bool\n", name, each.code, print(each.a), print(each.b));
      std::string cond = name + "a";
      if (!each.extra.empty()) {
        out += fmt::format("{0}b = tgk.{1} {2}, {3} : bool\n{0}c = tgk.and {0}a, {0}b : bool\n", name,
                           each.extra, print(each.c), print(each.d));
        cond = name + "c";
      }
      if (each.negated) {
        out += fmt::format("{}d = tgk.not {} : bool\n", name, cond);
        cond = name + "d";
      }
      out += fmt::format("tgk.if {} {{\n", cond);
      print(each.body, out);
      if (each.second) {
        out += "} else {\n";
        print(each.other, out);
      }
      out += "}\n";
      break;
    }
    case Statement::Kind::loop:
      out += fmt::format("tgk.for {} = {} to({}) step({}) {{\n", target, print(each.a), print(each.b),
                         each.step);
      print(each.body, out);
      out += "}\n";
    }
  }
}

std::string Program::text() const {
  std::string out =
      fmt::format("kernel @k(%idx: buf<16xu32, in>, %y: buf<{0}xf32, inout>, %z: buf<{0}x{1}xf32, inout>) "
                  "workgroup({2}, {3}) grid({4}) {{\n",
                  open_ ? "?" : std::to_string(rows_), columns_, lanes_, lanesY_,
                  open_ ? fmt::format("min(dim(%y, 0), {})", groups_) : std::to_string(groups_));
  out += "%v0 = tgk.global_id 0 : u32\n%v1 = tgk.local_id 0 : u32\n%v2 = tgk.workgroup_id 0 : u32\n"
         "%v3 = tgk.local_id 1 : u32\n%v4 = tgk.dim %y, 0 : u32\n";
  print(body_, out);
  return out + "}";
}

int64_t Program::apply(const Statement& op, const Variables& at) const {
  int64_t a = value(op.a, at), b = value(op.b, at);
  bool isSigned = signed_[static_cast<size_t>(op.target)];
  auto x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
  uint32_t out = 0;
  if (op.code == "select") return value(holds(op.extra, op.a, op.b, at) ? op.c : op.d, at);
  if (op.code == "span") return x < y ? y - x : 0;
  if (op.code == "add") out = x + y;
  if (op.code == "sub") out = x - y;
  if (op.code == "mul") out = x * y;
  if (op.code == "div") out = isSigned ? static_cast<uint32_t>(a / b) : y ? x / y : UINT32_MAX;
  if (op.code == "mod") out = isSigned ? static_cast<uint32_t>(a % b) : y ? x % y : 0;
  if (op.code == "min") out = static_cast<uint32_t>(std::min(a, b));
  if (op.code == "max") out = static_cast<uint32_t>(std::max(a, b));
  if (op.code == "shr") out = static_cast<uint32_t>(a >> (y & 31));
  if (op.code == "shl") out = x << (y & 31);
  if (op.code == "and") out = x & y;
  if (op.code == "or") out = x | y;
  if (op.code == "xor") out = x ^ y;
  if (op.code == "cast") out = x;
  return isSigned ? static_cast<int32_t>(out) : static_cast<int64_t>(out);
}

bool Program::holds(const std::string& code, const Term& a, const Term& b, const Variables& at) const {
  int64_t x = value(a, at), y = value(b, at);
  return code == "lt"   ? x < y
         : code == "le" ? x <= y
         : code == "gt" ? x > y
         : code == "ge" ? x >= y
         : code == "eq" ? x == y
                        : x != y;
}

void Program::note(int variable, int64_t value, Seen& seen) const {
  auto [at, fresh] = seen.values.try_emplace(fmt::format("v{}", variable), value, value);
  at->second = {std::min(at->second.first, value), std::max(at->second.second, value)};
}

/// A data-dependent element of the table, fixed for all programs.
int64_t tableAt(int64_t index) { return (index * 7 + 3) % 11; }

void Program::run(const std::vector<Statement>& body, Variables& at, Seen& seen, int lane) const {
  for (const Statement& each : body) {
    auto target = static_cast<size_t>(std::max(each.target, 0));
    switch (each.kind) {
    case Statement::Kind::op:
      at[target] = apply(each, at);
      note(each.target, at[target], seen);
      break;
    case Statement::Kind::load:
      at[target] = tableAt(value(each.a, at) & 15);
      note(each.target, at[target], seen);
      break;
    case Statement::Kind::store:
      seen.stores[static_cast<size_t>(each.id)].push_back(
          {lane, value(each.a, at), each.second ? value(each.b, at) : 0});
      break;
    case Statement::Kind::branch: {
      bool taken = holds(each.code, each.a, each.b, at);
      if (!each.extra.empty()) taken = taken && holds(each.extra, each.c, each.d, at);
      run(taken != each.negated ? each.body : each.other, at, seen, lane);
      break;
    }
    case Statement::Kind::loop: {
      int64_t trips = 0;
      for (int64_t k = value(each.a, at); k < value(each.b, at); k += each.step, ++trips) {
        at[target] = k;
        note(each.target, k, seen);
        run(each.body, at, seen, lane);
      }
      auto& most = seen.trips[fmt::format("v{}", each.target)];
      most = std::max(most, trips);
    }
    }
  }
}

Seen Program::run() const {
  Seen seen;
  seen.stores.resize(static_cast<size_t>(stores_));
  int lane = 0;
  for (int64_t group = 0; group < groups_; ++group)
    for (int64_t y = 0; y < lanesY_; ++y)
      for (int64_t x = 0; x < lanes_; ++x) {
        Variables at(signed_.size());
        at[kGlobal] = group * lanes_ + x;
        at[kLocal] = x;
        at[kGroup] = group;
        at[kLocalY] = y;
        at[kRows] = rows_;
        run(body_, at, seen, lane++);
      }
  return seen;
}

/// How often each claim was made.
struct Claims {
  int lanePrivate = 0, inRange = 0, repeats = 0, trips = 0, asked = 0;
};

class Judge {
 public:
  Judge(const Program& program, const Item& kernel, bool withShapes, Claims& claims)
      : program_(program), kernel_(kernel), claims_(claims), shapes_(program.shapes()), seen_(program.run()),
        analysis_(kernel, withShapes ? &shapes_ : nullptr) {}
  void judge(std::mt19937& random);

 private:
  bool reaches(const Op& store, const Touch& touch) const {
    bool two = elementOf(store)->items.size() == 2;
    return touch.first >= 0 && touch.first < program_.rows() && touch.second >= 0 &&
           touch.second < (two ? program_.columns() : 1);
  }
  /// Elements and the invocations that touch them through some stores.
  std::map<std::pair<int64_t, int64_t>, std::vector<int>> touched(const std::vector<size_t>& stores) const {
    std::map<std::pair<int64_t, int64_t>, std::vector<int>> out;
    for (size_t store : stores)
      for (const Touch& touch : seen_.stores[store])
        if (reaches(*stores_[store], touch)) out[{touch.first, touch.second}].push_back(touch.lane);
    return out;
  }
  void one(size_t store);
  void several(const std::vector<size_t>& stores);
  void values();

  const Program& program_;
  const Item& kernel_;
  Claims& claims_;
  std::vector<Shape> shapes_;
  Seen seen_;
  IndexAnalysis analysis_;
  std::vector<const Op*> stores_;
};

void Judge::one(size_t store) {
  const Op& op = *stores_[store];
  ++claims_.asked;
  if (analysis_.inRange(op)) {
    ++claims_.inRange;
    for (const Touch& touch : seen_.stores[store])
      EXPECT_TRUE(reaches(op, touch)) << "store " << store << " at " << touch.first << ", " << touch.second;
  }
}

void Judge::several(const std::vector<size_t>& stores) {
  std::vector<const Op*> ops;
  for (size_t store : stores) ops.push_back(stores_[store]);
  auto elements = touched(stores);
  if (analysis_.lanePrivate(ops)) {
    ++claims_.lanePrivate;
    for (const auto& [element, lanes] : elements)
      EXPECT_EQ(std::set<int>(lanes.begin(), lanes.end()).size(), 1u) << "element " << element.first;
  }
  if (analysis_.certainlyRepeats(ops)) {
    ++claims_.repeats;
    bool twice = false;
    for (const auto& [element, lanes] : elements) twice = twice || lanes.size() > 1;
    EXPECT_TRUE(twice) << stores.size() << " stores from " << stores.front();
  }
}

void Judge::values() {
  walk(kernel_.body, [&](Op& op) {
    std::vector<Value*> defined;
    for (const auto& result : op.results) defined.push_back(result.get());
    if (op.code == Opcode::k_for) {
      defined.push_back(op.operands[0].value);
      auto trips = analysis_.tripCount(op);
      auto most = seen_.trips.find(op.operands[0].value->name);
      claims_.trips += trips.has_value();
      if (trips && most != seen_.trips.end()) {
        EXPECT_LE(most->second, *trips) << most->first;
      }
    }
    for (Value* value : defined) {
      auto found = seen_.values.find(value->name);
      if (found == seen_.values.end()) continue;
      auto range = analysis_.range(Operand::of(value));
      EXPECT_LE(range.lo, found->second.first) << value->name;
      EXPECT_GE(range.hi, found->second.second) << value->name;
    }
  });
}

void Judge::judge(std::mt19937& random) {
  walk(kernel_.body, [&](Op& op) {
    if (op.code == Opcode::k_store) stores_.push_back(&op);
  });
  values();
  std::map<std::string, std::vector<size_t>> buffers;
  for (size_t store = 0; store < stores_.size(); ++store) {
    one(store);
    several({store});
    buffers[elementOf(*stores_[store])->value->name].push_back(store);
  }
  for (const auto& [buffer, stores] : buffers) {
    several(stores);
    if (stores.size() > 2) several({stores[random() % stores.size()], stores[random() % stores.size()]});
  }
}

TEST(IndexEnumeration, ClaimsHoldOnRandomKernels) {
  Claims claims;
  constexpr unsigned kPrograms = 1000;
  for (unsigned seed = 0; seed < kPrograms && !HasFailure(); ++seed) {
    Program program(seed);
    auto module = kernels(program.text());
    ASSERT_TRUE(module);
    SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, program.text()));
    std::mt19937 random(seed);
    for (bool withShapes : {false, true}) Judge(program, verified(*module), withShapes, claims).judge(random);
  }
  // A claim that is never made is never tested.
  EXPECT_GT(claims.lanePrivate, claims.asked / 4);
  EXPECT_GT(claims.inRange, claims.asked / 4);
  EXPECT_GT(claims.repeats, claims.asked / 10);
  EXPECT_GT(claims.trips, static_cast<int>(kPrograms / 2));
}

}  // namespace
}  // namespace tg::test
