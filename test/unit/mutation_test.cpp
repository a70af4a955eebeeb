// SPDX-License-Identifier: Apache-2.0
// Mutants of the gradients: each op that append-grad emits is broken in every way that still verifies, and
// the comparison with central differences must notice. A mutant that cleans up to the same program is
// equivalent and counted apart. Composite rows of gradients (softmax_grad, …) are expanded first, so their
// formulas are broken too.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

#include "ir/infer.h"
#include "ir/parser.h"
#include "ir/verify.h"
#include "passes/grad_rules/grad_rules.h"
#include "passes/pass.h"
#include "test/unit/grad_programs.h"

namespace tg::test {
namespace {

/// One way to break the op at a place of @train: false where it does not apply.
struct Mutation {
  const char* name;
  std::function<bool(Module&, size_t)> apply;
};

Op& opAt(Module& module, size_t index) { return *module.func("train")->body.ops.all()[index]; }

/// The op's result replaced by its operand, where the types agree.
bool becomeOperand(Module& module, size_t index, int operand) {
  Op& op = opAt(module, index);
  if (op.results.size() != 1 || operand >= op.numOperands()) return false;
  if (op.operands[static_cast<size_t>(operand)].kind != Operand::Kind::value) return false;
  if (!(op.in(operand)->type == op.result()->type)) return false;
  op.result()->uses.replaceAll(op.in(operand));
  return true;
}

/// Emits ops behind `index` that compute a stand-in for the op's result, which its readers then take.
bool standIn(Module& module, size_t index, const std::function<Value*(Builder&, Op&)>& make) {
  Item* func = module.func("train");
  Op& op = opAt(module, index);
  if (op.results.empty()) return false;
  Op* next = op.next();
  Builder builder(&module, func);
  builder.setBefore(next);
  Value* value = make(builder, op);
  if (!value || !(value->type == op.result()->type)) return false;
  op.result()->uses.replaceFrom(*next, value);
  return true;
}

bool swapOperands(Module& module, size_t index, int a, int b) {
  Op& op = opAt(module, index);
  // Which operand of a tie min and max give matters to a derivative alone, and none follows.
  if (op.info().has(table::commutative) || op.code == Opcode::min || op.code == Opcode::max) return false;
  if (std::max(a, b) >= op.numOperands()) return false;
  std::swap(op.operands[static_cast<size_t>(a)], op.operands[static_cast<size_t>(b)]);
  return true;
}

bool toggleFlag(Module& module, size_t index, size_t which) {
  Op& op = opAt(module, index);
  for (const table::AttrRow& row : op.info().attrs)
    if (row.kind == table::AttrKind::boolean && which-- == 0) {
      op.setAttr(row.name, Attr::boolean(!op.flag(row.name)));
      return true;
    }
  return false;
}

bool changeConstant(Module& module, size_t index, const std::function<double(double)>& change) {
  Op& op = opAt(module, index);
  if (op.code != Opcode::constant || !op.operands[0].isLiteral()) return false;
  if (!isFloat(op.result()->type.dtype)) return false;
  op.operands[0] = Operand::literal(change(op.operands[0].number()));
  return true;
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {
      {"flip the sign",
       [](Module& m, size_t i) {
         if (!isFloat(opAt(m, i).result()->type.dtype) || opAt(m, i).code == Opcode::constant) return false;
         return standIn(m, i, [](Builder& b, Op& op) { return b.op(Opcode::neg, {op.result()}); });
       }},
      {"keep operand 0 alone", [](Module& m, size_t i) { return becomeOperand(m, i, 0); }},
      {"keep operand 1 alone", [](Module& m, size_t i) { return becomeOperand(m, i, 1); }},
      {"keep operand 2 alone", [](Module& m, size_t i) { return becomeOperand(m, i, 2); }},
      {"swap operands 0 and 1", [](Module& m, size_t i) { return swapOperands(m, i, 0, 1); }},
      {"swap operands 1 and 2", [](Module& m, size_t i) { return swapOperands(m, i, 1, 2); }},
      {"forget to sum",
       [](Module& m, size_t i) {
         if (opAt(m, i).code != Opcode::sum && opAt(m, i).code != Opcode::mean) return false;
         return standIn(m, i, [](Builder& b, Op& op) {
           // One summand instead of all.
           std::vector<int64_t> starts(static_cast<size_t>(op.in(0)->type.rank()), 0), limits;
           Shape kept = reducedShape(op.in(0)->type.shape, op.ints("axes"), true);
           for (int64_t extent : kept) limits.push_back(extent);
           Value* first = b.op(Opcode::slice, {op.in(0)},
                               {{"starts", Attr::ints(starts)}, {"limits", Attr::ints(limits)}});
           return b.reshape(first, op.result()->type.shape);
         });
       }},
      {"toggle flag 0", [](Module& m, size_t i) { return toggleFlag(m, i, 0); }},
      {"toggle flag 1", [](Module& m, size_t i) { return toggleFlag(m, i, 1); }},
      {"constant + 1",
       [](Module& m, size_t i) { return changeConstant(m, i, [](double c) { return c + 1; }); }},
      {"constant negated",
       [](Module& m, size_t i) { return changeConstant(m, i, [](double c) { return 0 - c; }); }},
      {"constant doubled",
       [](Module& m, size_t i) { return changeConstant(m, i, [](double c) { return 2 * c; }); }},
  };
  return all;
}

/// The text with the values of @train numbered in order, after cleaning up.
std::string normalForm(const Module& module) {
  std::unique_ptr<Module> clean = clone(module);
  for (Op* op : clean->func("train")->body.ops)  // a seed is not folded
    if (op->code == Opcode::constant) op->setAttr("seed", Attr::boolean(false));
  EXPECT_TRUE(run_canonicalize(*clean, {}, {}) && run_cse(*clean, {}, {}) && run_dce(*clean, {}, {}));
  int next = 0;
  for (Op* op : clean->func("train")->body.ops)
    for (const auto& result : op->results) result->name = fmt::format("v{}", next++);
  return print(*clean);
}

/// Inputs, and the difference quotients of the loss there, by differentiable input.
struct Point {
  Inputs inputs;
  std::vector<std::vector<double>> want;
};

/// Whether a gradient differs from the difference quotients. Where these are not finite, it must be all the
/// same.
bool differs(const Module& module, const Point& point) {
  auto interpreter = Interpreter::create(module);
  if (!interpreter) return true;
  auto run = interpreter->run("train", point.inputs);
  if (!run || run->results.size() != point.want.size() + 1) return true;
  for (size_t i = 0; i < point.want.size(); ++i) {
    const std::vector<double>&want = point.want[i], &got = run->results[i + 1].second.data;
    double scale = 1;
    for (double value : want)
      if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
    for (size_t k = 0; k < want.size(); ++k)
      if (std::isfinite(want[k]) ? !(std::abs(got[k] - want[k]) <= kGradientTolerance * scale)
                                 : !std::isfinite(got[k]))
        return true;
  }
  return false;
}

/// Points far from the ordinary: values so large that e^x overflows, equal in pairs, whole ones of both
/// signs, zeros, minus infinity; indices one beyond either end, and all the same but for one.
std::vector<Inputs> edgesOf(const GradCase& gradCase, const Inputs& plain) {
  std::vector<Inputs> edges;
  auto add = [&](DType dtype, const std::function<double(size_t input, size_t k, double x)>& change) {
    Inputs inputs = plain;
    for (size_t i = 0; i < gradCase.inputs.size(); ++i) {
      NdArray& array = inputs[std::string(1, static_cast<char>('a' + i))];
      if (array.type.dtype != dtype) continue;
      for (size_t k = 0; k < array.data.size(); ++k) array.data[k] = change(i, k, array.data[k]);
    }
    if (std::any_of(plain.begin(), plain.end(),
                    [&](const auto& each) { return each.second.type.dtype == dtype; }))
      edges.push_back(std::move(inputs));
  };
  auto whole = [](double x) { return std::max(1.0, std::round(std::abs(x))); };
  add(DType::f32, [](size_t, size_t, double x) { return 1000 * x; });
  add(DType::f32, [](size_t, size_t, double x) { return 2000 * x + 900; });
  add(DType::f32, [](size_t, size_t k, double x) { return k % 2 ? std::round(x) : std::round(2 * x) / 2; });
  add(DType::f32, [&](size_t i, size_t k, double x) { return i == 0 && k % 2 ? -whole(x) : whole(x); });
  add(DType::f32, [&](size_t i, size_t k, double x) {
    bool zero = i == 0 ? k % 2 != 0 : k % 4 < 2;
    return zero ? 0 : whole(x);
  });
  add(DType::f32, [&](size_t i, size_t k, double x) { return i == 0 && k % 2 ? 0 : whole(x); });
  add(DType::f32,
      [](size_t i, size_t, double x) { return i == 0 ? -std::numeric_limits<double>::infinity() : x; });
  double lo = 0, hi = 0;
  for (const CaseInput& input : gradCase.inputs)
    if (input.type.ends_with("i32")) lo = input.lo, hi = input.hi;
  for (double id = lo - 1; id <= std::min(hi + 1, lo + 8); ++id) {
    add(DType::i32, [&](size_t, size_t, double) { return id; });
    add(DType::i32, [&](size_t, size_t k, double) { return k == 0 ? id + 1 : id; });
  }
  return edges;
}

/// Where to compare: ordinary draws, and those edges where the rule's own gradient equals the quotients too.
std::vector<Point> pointsOf(const GradCase& gradCase, const Program& program, const Module& forward,
                            const Module& backward, std::mt19937& random) {
  auto at = [&](Inputs inputs) {
    Point point{std::move(inputs), {}};
    auto f = [&](const Inputs& x) { return evaluate(forward, x)[0].data[0]; };
    for (const std::string& name : program.floats) {
      point.want.emplace_back();
      for (size_t k = 0; k < point.inputs[name].data.size(); ++k)
        point.want.back().push_back(centralDifference(f, point.inputs, name, k));
    }
    return point;
  };
  std::vector<Point> points;
  for (int draw = 0; draw < 4; ++draw) {
    points.push_back(at(drawInputs(backward, gradCase, random)));
    EXPECT_FALSE(differs(backward, points.back())) << print(backward);
  }
  Inputs pairs = points[1].inputs;
  for (auto& [name, array] : pairs)
    for (size_t k = 0; isFloat(array.type.dtype) && k < array.data.size(); ++k)
      array.data[k] = array.data[k & ~size_t{1}];
  std::vector<Inputs> edges = edgesOf(gradCase, points[0].inputs);
  edges.push_back(std::move(pairs));
  for (Inputs& edge : edges) {
    Point point = at(std::move(edge));
    if (!differs(backward, point)) points.push_back(std::move(point));
  }
  return points;
}

/// Whether a broken op computes the same function for a reason of algebra that cleaning up does not see.
bool sameByAlgebra(Opcode row, const Op& op, std::string_view mutation) {
  // Without a second derivative to come it is the identity.
  if (op.code == Opcode::stop_gradient && mutation.starts_with("keep")) return true;
  // e^z stands above and below in e^z / Σ e^z, so its sign cancels.
  bool ratio = row == Opcode::cross_entropy || row == Opcode::cross_entropy_grad;
  if (ratio && op.code == Opcode::exp && mutation == "flip the sign") return true;
  bool signs = mutation == "flip the sign" || mutation == "swap operands 0 and 1";
  // The normalised row stands twice in n·mean(h·n), so its sign cancels.
  bool norm = row == Opcode::layer_norm || row == Opcode::rms_norm;
  if (norm && signs && (op.code == Opcode::sub || op.code == Opcode::mul)) return true;
  // Masked scores are the lowest number, whose e^s is 0, and the masked p is 0 again: either is enough.
  bool attends =
      row == Opcode::attention_grad || row == Opcode::attention_grad_q || row == Opcode::attention_grad_kv;
  if (attends && op.code == Opcode::select && mutation == "keep operand 1 alone") return true;
  if (attends && op.code == Opcode::constant && mutation == "constant doubled") return true;
  // Two guards keep log and the quotient from what is not positive: either is enough for a first derivative.
  bool guard = op.code == Opcode::select || op.code == Opcode::constant;
  if (row == Opcode::pow && guard && mutation != "keep operand 2 alone") return true;
  // What they guard is their last operand; elsewhere, of a power's exponent, it is told from the first.
  if (row == Opcode::pow && op.code == Opcode::select && op.in(0)->def &&
      op.in(0)->def->code == Opcode::less_equal)
    return true;
  // Where elu's minimum is not x, the select behind it gives 0; relu(x) is above 0 where x is.
  const bool part = op.code == Opcode::min || op.code == Opcode::relu;
  if (row == Opcode::elu && part && mutation == "keep operand 0 alone") return true;
  // n/(x² + y²) is computed over a scale, 1/(|x| + |y|), which cancels (ScalarTable.GradientsKeepTheirRange).
  auto made = [&](int operand, Opcode code) {
    return op.in(operand)->def && op.in(operand)->def->code == code;
  };
  if (row == Opcode::atan2 && (op.code == Opcode::abs || op.code == Opcode::constant ||
                               (op.code == Opcode::add && made(0, Opcode::abs)) ||
                               (op.code == Opcode::div && made(0, Opcode::constant)) ||
                               (op.code == Opcode::mul && !op.in(0)->def && mutation == "flip the sign")))
    return true;
  // With no row counted, every row is masked, whatever it was divided by.
  bool count = op.code == Opcode::max && mutation == "keep operand 0 alone";
  if (row == Opcode::cross_entropy &&
      (count || (op.code == Opcode::constant && mutation == "constant negated")))
    return true;
  // Any finite floor does beside -inf.
  if (row == Opcode::logsumexp && op.code == Opcode::constant && mutation == "constant doubled") return true;
  // The first frequency is 1.
  if (row == Opcode::rope && op.code == Opcode::mul && mutation == "keep operand 0 alone") return true;
  // What is below the lower bound is masked there already.
  if (row == Opcode::clamp && op.code == Opcode::max && mutation == "keep operand 0 alone") return true;
  // Moving axes of extent 1 moves nothing.
  if (op.code == Opcode::transpose && mutation == "keep operand 0 alone") {
    int64_t last = -1;
    bool inOrder = true;
    for (int64_t axis : op.ints("perm"))
      if (op.in(0)->type.shape[static_cast<int>(axis)] > 1) inOrder = inOrder && axis > last, last = axis;
    if (inOrder) return true;
  }
  // The bound of gelu's exponential is for f32 (LowerKernels.GeluGradientsKeepTheirTails); f64 does not come near it.
  const bool isGelu = row == Opcode::gelu || row == Opcode::gelu_grad;
  auto isBound = [](const Op* of) {
    return of && of->code == Opcode::constant && of->operands[0].number() == 0x1p126;
  };
  auto isBounded = [&](const Op* of) { return of && of->numOperands() > 1 && isBound(of->in(1)->def); };
  auto choosesByIt = [&](const Op* of) { return of->code == Opcode::select && isBounded(of->in(0)->def); };
  auto isElse = [&] {
    return std::any_of(op.result()->uses.begin(), op.result()->uses.end(),
                       [&](const Use& use) { return choosesByIt(use.user()); });
  };
  if (isGelu && isBound(&op) && (mutation == "constant doubled" || mutation == "constant + 1")) return true;
  if (isGelu && op.code == Opcode::min && isBounded(&op) && mutation == "keep operand 0 alone") return true;
  if (isGelu && choosesByIt(&op) && mutation == "keep operand 1 alone") return true;
  if (isGelu && op.code == Opcode::constant && isElse()) return true;
  // Minus zero.
  return mutation == "flip the sign" && op.code == Opcode::broadcast_to && op.in(0)->def &&
         op.in(0)->def->code == Opcode::constant && op.in(0)->def->operands[0].number() == 0;
}

/// A mutant of a rule, whatever case shows it: the row, what is broken and how.
using Mutant = std::tuple<std::string, std::string, std::string, std::string>;

struct Tally {
  int mutants = 0, killed = 0, equivalent = 0;
  std::set<Mutant> dead;
  std::vector<std::pair<Mutant, std::string>> survivors;  ///< with the program, case by case
};

/// Expands the composite ops that are not of the forward program.
void expandBackward(Module& module, const std::set<std::string>& forward);

void mutate(const GradCase& gradCase, std::mt19937& random, Tally& tally) {
  Program program = programOf(gradCase);
  auto forward = verified(program.forward()), backward = verified(withGradients(program, 1));
  ASSERT_TRUE(forward && backward);
  ASSERT_TRUE(expand(*backward));
  std::set<std::string> given;
  for (Op* op : forward->func("train")->body.ops)
    for (const auto& result : op->results) given.insert(result->name);
  expandBackward(*backward, given);
  // The gradient of the parameter that no case reads is nobody's rule.
  backward->func("train")->body.ops.eraseIf([](const Op* op) { return op->code == Opcode::param_grad; });
  std::vector<Point> points = pointsOf(gradCase, program, *forward, *backward, random);
  std::string same = normalForm(*backward);
  const std::vector<Op*> ops = backward->func("train")->body.ops.all();
  for (size_t index = 0; index < ops.size(); ++index) {
    if (ops[index]->results.empty() || given.count(ops[index]->result()->name)) continue;
    for (const Mutation& mutation : mutations()) {
      std::unique_ptr<Module> mutant = clone(*backward);
      if (!mutation.apply(*mutant, index) || !verify(*mutant)) continue;
      ++tally.mutants;
      Mutant id{info(gradCase.code).name, ops[index]->info().name, ops[index]->result()->name, mutation.name};
      if (std::any_of(points.begin(), points.end(), [&](const Point& at) { return differs(*mutant, at); })) {
        ++tally.killed;
        tally.dead.insert(id);
      } else if (normalForm(*mutant) == same || sameByAlgebra(gradCase.code, *ops[index], mutation.name)) {
        ++tally.equivalent;
      } else {
        tally.survivors.emplace_back(id, print(*backward));
      }
    }
  }
}

void expandBackward(Module& module, const std::set<std::string>& forward) {
  Item& func = *module.func("train");
  OpList old = func.body.ops.takeAll();
  Builder builder(&module, &func);  // names begin anew, so that they are the same in all cases of a rule
  while (!old.empty()) {
    std::unique_ptr<Op> op = old.takeFront();
    bool own = !op->results.empty() && !forward.count(op->result()->name);
    if (!own || !op->info().has(table::composite)) {
      func.body.ops.push_back(std::move(op));
      continue;
    }
    std::vector<Value*> operands;
    for (const Operand& operand : op->operands) operands.push_back(operand.value);
    std::vector<Value*> results = decompose(*op, operands, builder);
    for (size_t i = 0; i < results.size(); ++i) op->results[i]->uses.replaceAll(results[i]);
  }
}

TEST(Mutants, OfEveryGradientRuleDie) {
  std::mt19937 random(7);
  Tally tally;
  std::set<Opcode> rules;
  for (const GradCase& gradCase : gradCases()) {
    if (cutsGradient(gradCase.code)) continue;
    rules.insert(gradCase.code);
    SCOPED_TRACE(gradCase.body);
    mutate(gradCase, random, tally);
    if (HasFatalFailure()) return;
  }
  int survivors = 0, elsewhere = 0;
  for (const auto& [id, program] : tally.survivors) {
    if (tally.dead.count(id)) {
      ++elsewhere;  // a case without broadcasting, a single row: another case of the rule tells them apart
      continue;
    }
    ++survivors;
    const auto& [row, op, value, mutation] = id;
    ADD_FAILURE() << row << ": " << mutation << " of %" << value << " (" << op << ") in\n" << program;
  }
  fmt::print("{} rules, {} mutants: {} killed, {} killed in another case, {} equivalent, {} survive\n",
             rules.size(), tally.mutants, tally.killed, elsewhere, tally.equivalent, survivors);
  EXPECT_GT(tally.killed, 0);
}

}  // namespace
}  // namespace tg::test
