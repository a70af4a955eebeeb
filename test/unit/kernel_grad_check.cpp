// SPDX-License-Identifier: Apache-2.0
// The judge of one kernel's gradient.
#include "test/unit/kernel_grad_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ir/parser.h"
#include "ir/verify.h"

namespace tg::test {
namespace {

using Role = KernelVjpParam::Role;

std::vector<KernelSchedule> allSchedules(bool wide) {
  std::vector<KernelSchedule> out;
  for (LaneOrder order :
       {LaneOrder::wholeLane, LaneOrder::roundRobin, LaneOrder::lockstep, LaneOrder::shuffled})
    for (bool reversed : {false, true}) out.push_back({order, reversed, wide});
  return out;
}

/// |a - b| against a scale.
bool close(double a, double b, double tolerance, double scale) {
  if (std::isnan(a) || std::isnan(b)) return false;
  return a == b || std::abs(a - b) <= tolerance * scale;
}

double largest(const std::vector<double>& values) {
  double out = 0;
  for (double value : values)
    if (std::isfinite(value)) out = std::max(out, std::abs(value));
  return out;
}

/// Differentiates and judges one kernel; each step returns false once a fault is found.
class GradientJudge {
 public:
  explicit GradientJudge(const KernelGradCase& test) : test_(test), random_(test.seed) {}
  KernelGradReport run();
  KernelGradCase second();

 private:
  bool found(GradFault fault, std::string what) {
    report_.fault = fault;
    report_.what = std::move(what);
    return false;
  }
  bool prepare();
  bool forward();
  void names();
  void drawCotangents();
  bool vjp();
  bool givenVjp();
  bool text();
  bool bindVjp();
  bool backward();
  bool sameGradients(const KernelOutcome& outcome, double tolerance, GradFault fault,
                     const std::string& where);
  bool expected();
  bool differences();
  struct Slopes {
    double central = 0, left = 0, right = 0;
  };
  bool slopes(const std::string& name, size_t at, double h, Slopes* out);
  bool element(const std::string& name, size_t at);
  bool objective(const std::string& name, size_t at, double delta, double* value);
  const Value* param(const std::string& name) const { return kernel_->arg(name); }
  bool listed(const std::vector<std::string>& names, const std::string& name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const KernelGradCase& test_;
  std::mt19937_64 random_;
  KernelGradReport report_;
  std::unique_ptr<Module> module_;
  const Item* kernel_ = nullptr;
  const Item* vjpKernel_ = nullptr;
  std::vector<KernelVjpParam> params_;
  std::vector<std::string> wrt_, of_;
  KernelArrays cotangents_;
  KernelOutcome forward_;
  KernelArrays vjpArrays_;
};

bool GradientJudge::prepare() {
  auto module = parse("module @m stage(kernel) {\n" + test_.text + "\n}\n", "kernel.tgir");
  if (!module) return found(GradFault::forward, module.error().str());
  module_ = *std::move(module);
  if (auto verified = verify(*module_); !verified) return found(GradFault::forward, verified.error().str());
  kernel_ = module_->find(ItemKind::kernel, test_.kernel);
  if (!kernel_) return found(GradFault::forward, "there is no kernel @" + test_.kernel);
  names();
  return true;
}

/// The parameters that the request names, those it means by default included.
void GradientJudge::names() {
  wrt_ = test_.wrt;
  of_ = test_.of;
  for (const auto& arg : kernel_->body.args) {
    if (!isFloat(arg->type.dtype)) continue;
    BufMode mode = arg->type.mode;
    if (test_.wrt.empty() && (mode == BufMode::in || mode == BufMode::inout)) wrt_.push_back(arg->name);
    if (test_.of.empty() && (mode == BufMode::out || mode == BufMode::inout || mode == BufMode::accum))
      of_.push_back(arg->name);
  }
}

bool GradientJudge::forward() {
  for (bool wide : {true, false})
    for (const KernelSchedule& schedule : allSchedules(wide)) {
      auto outcome = runArrays(*module_, *kernel_, test_.arrays, schedule);
      if (!outcome) return found(GradFault::forward, outcome.error().str());
      if (outcome->faults() || !outcome->counters.findings.empty())
        return found(GradFault::forward,
                     fmt::format("{}: {}", str(schedule), fmt::join(outcome->counters.findings, "\n")));
      if (forward_.arrays.empty()) forward_ = *std::move(outcome);
    }
  for (const auto& arg : kernel_->body.args) {
    if (!isFloat(arg->type.dtype) || arg->type.mode == BufMode::tape) continue;
    for (double value : forward_.arrays.at(arg->name).values)
      if (!std::isfinite(value)) return found(GradFault::forward, "%" + arg->name + " is not finite");
  }
  return true;
}

void GradientJudge::drawCotangents() {
  std::uniform_real_distribution<double> draw(-1.5, 1.5);
  for (const std::string& name : of_) {
    KernelArray& cotangent = cotangents_[name];
    cotangent = forward_.arrays.at(name);
    auto given = test_.cotangents.find(name);
    for (size_t i = 0; i < cotangent.values.size(); ++i) {
      double drawn = static_cast<float>(draw(random_));
      cotangent.values[i] = given == test_.cotangents.end() ? drawn : given->second.values[i];
    }
  }
}

/// The roles of a hand-written VJP's parameters follow from their names.
bool GradientJudge::givenVjp() {
  vjpKernel_ = module_->find(ItemKind::kernel, test_.vjp);
  if (!vjpKernel_) return found(GradFault::refused, "there is no kernel @" + test_.vjp);
  for (const auto& arg : vjpKernel_->body.args) {
    std::string of = arg->name;
    Role role = arg->type.mode == BufMode::tape ? Role::tape : Role::primal;
    if (of.starts_with("d_")) {
      of = of.substr(2);
      BufMode mode = arg->type.mode;
      role = mode == BufMode::in ? Role::cotangent : mode == BufMode::inout ? Role::adjoint : Role::gradient;
    }
    params_.push_back({role, of});
  }
  return true;
}

bool GradientJudge::vjp() {
  if (!test_.vjp.empty()) return givenVjp();
  KernelVjpRequest request{test_.wrt, test_.of, test_.kernel + ".vjp", test_.checkpoint};
  auto made = differentiateKernel(*module_, *kernel_, request);
  if (!made) return found(GradFault::refused, made.error().str());
  params_ = made->params;
  vjpKernel_ = made->kernel.get();
  report_.vjp = print(*made->kernel);
  for (size_t i = 0; i < params_.size(); ++i) {
    if (params_[i].role != Role::tape) continue;
    std::vector<Shape> shapes;
    for (const auto& arg : kernel_->body.args) shapes.push_back(test_.arrays.at(arg->name).shape);
    auto shape = tapeShape(*made, static_cast<int>(i), *kernel_, shapes);
    if (!shape) return found(GradFault::refused, shape.error().str());
    if (shape->elements() > 1 << 20) return found(GradFault::refused, "a tape of " + shape->str());
    vjpArrays_[vjpKernel_->body.args[i]->name].shape = *shape;
  }
  module_->items.push_back(std::move(made->kernel));
  return true;
}

bool GradientJudge::text() {
  if (auto verified = verify(*module_); !verified) return found(GradFault::verify, verified.error().str());
  std::string once = print(*module_);
  auto again = parse(once, "vjp.tgir");
  if (!again) return found(GradFault::text, again.error().str());
  if (print(**again) != once) return found(GradFault::text, "print, parse, print changes the text:\n" + once);
  return true;
}

bool GradientJudge::bindVjp() {
  if (params_.size() != vjpKernel_->body.args.size())
    return found(GradFault::verify, "the roles are not one for each parameter");
  for (size_t i = 0; i < params_.size(); ++i) {
    const Value& arg = *vjpKernel_->body.args[i];
    const std::string& of = params_[i].of;
    KernelArray& array = vjpArrays_[arg.name];
    if (params_[i].role == Role::tape) {
      if (!test_.vjp.empty()) array = test_.arrays.at(arg.name);
      continue;
    }
    if (!test_.arrays.contains(of))
      return found(GradFault::verify, "a role is of an unknown parameter " + of);
    array.shape = test_.arrays.at(of).shape;
    if (arg.type.lanes < param(of)->type.lanes)  // sums of vectors: their lanes stand on the last axis
      array.shape[array.shape.rank() - 1] *= param(of)->type.lanes;
    BufMode mode = param(of)->type.mode;
    if (params_[i].role == Role::primal)
      array = !test_.vjp.empty() && mode == BufMode::out ? forward_.arrays.at(of) : test_.arrays.at(of);
    if (params_[i].role == Role::gradient) array.values.clear();
    bool given = params_[i].role == Role::cotangent || params_[i].role == Role::adjoint;
    if (!given) continue;
    if (listed(of_, of))
      array.values = cotangents_.at(of).values;
    else
      array.values.assign(static_cast<size_t>(array.shape.elements() * arg.type.lanes), 0);
    if (params_[i].role == Role::cotangent && !listed(of_, of))
      return found(GradFault::verify, "there is a cotangent of " + of + ", which was not asked for");
  }
  return true;
}

bool GradientJudge::sameGradients(const KernelOutcome& outcome, double tolerance, GradFault fault,
                                  const std::string& where) {
  for (size_t i = 0; i < params_.size(); ++i) {
    const KernelVjpParam& param = params_[i];
    if (param.role != Role::gradient && param.role != Role::adjoint) continue;
    if (!listed(wrt_, param.of)) continue;
    const KernelArray& got = outcome.arrays.at(vjpKernel_->body.args[i]->name);
    auto [first, isNew] = report_.gradients.try_emplace(param.of, got);
    if (isNew) continue;
    const std::vector<double>& wanted = first->second.values;
    double scale = 1 + largest(wanted);
    for (size_t at = 0; at < wanted.size(); ++at)
      if (!close(got.values[at], wanted[at], tolerance, scale) &&
          !(std::isnan(got.values[at]) && std::isnan(wanted[at])))
        return found(fault, fmt::format("{}: d_{}[{}] is {}, not {}", where, param.of, at, got.values[at],
                                        wanted[at]));
  }
  return true;
}

bool GradientJudge::backward() {
  for (bool wide : {true, false})
    for (const KernelSchedule& schedule : allSchedules(wide)) {
      auto outcome = runArrays(*module_, *vjpKernel_, vjpArrays_, schedule);
      if (!outcome) return found(GradFault::run, outcome.error().str());
      if (outcome->faults() || !outcome->counters.findings.empty())
        return found(GradFault::faults,
                     fmt::format("{}: {}", str(schedule), fmt::join(outcome->counters.findings, "\n")));
      if (!sameGradients(*outcome, wide ? 1e-11 : test_.f32Tolerance,
                         wide ? GradFault::schedule : GradFault::f32, str(schedule)))
        return false;
    }
  for (const std::string& name : wrt_)
    if (!report_.gradients.contains(name)) {  // no path from it to a result
      KernelArray zero = test_.arrays.at(name);
      std::fill(zero.values.begin(), zero.values.end(), 0);
      report_.gradients[name] = zero;
    }
  return true;
}

bool GradientJudge::expected() {
  for (const auto& [name, array] : test_.expected) {
    auto got = report_.gradients.find(name);
    if (got == report_.gradients.end()) return found(GradFault::expected, "there is no gradient of " + name);
    for (size_t at = 0; at < array.values.size(); ++at)
      if (!close(got->second.values[at], array.values[at], test_.tolerance, 1 + largest(array.values)))
        return found(GradFault::expected, fmt::format("d_{}[{}] is {}, the formula says {}", name, at,
                                                      got->second.values[at], array.values[at]));
  }
  return true;
}

/// Σ cotangent·(result - result at the case's values), with one element of one input moved.
bool GradientJudge::objective(const std::string& name, size_t at, double delta, double* value) {
  KernelArrays moved = test_.arrays;
  moved.at(name).values[at] += delta;
  KernelSchedule plain;
  plain.checks = false;
  auto outcome = runArrays(*module_, *kernel_, moved, plain);
  if (!outcome) return found(GradFault::forward, outcome.error().str());
  double sum = 0;
  for (const auto& [of, cotangent] : cotangents_)
    for (size_t i = 0; i < cotangent.values.size(); ++i) {
      double now = outcome->arrays.at(of).values[i], before = forward_.arrays.at(of).values[i];
      sum += cotangent.values[i] * (now - before);
    }
  *value = sum;
  return true;
}

/// Five points: a central difference of fourth order, and one-sided ones of second order.
bool GradientJudge::slopes(const std::string& name, size_t at, double h, Slopes* out) {
  double ahead1 = 0, ahead2 = 0, back1 = 0, back2 = 0;
  if (!objective(name, at, h, &ahead1) || !objective(name, at, -h, &back1) ||
      !objective(name, at, 2 * h, &ahead2) || !objective(name, at, -2 * h, &back2))
    return false;
  out->central = (8 * (ahead1 - back1) - (ahead2 - back2)) / (12 * h);
  out->right = (4 * ahead1 - ahead2) / (2 * h);
  out->left = (back2 - 4 * back1) / (2 * h);
  return true;
}

/// One-sided differences disagree at a corner or a jump. Those of another step say how good they are: a
/// gradient must be as near to them as they are to each other.
bool GradientJudge::element(const std::string& name, size_t at) {
  Slopes coarse, fine;
  if (!slopes(name, at, 1e-4, &coarse)) return false;
  const std::vector<double>& all = report_.gradients.at(name).values;
  double scale = 1 + largest(all), got = all[at];
  if (close(got, coarse.central, test_.tolerance, scale)) {
    ++report_.compared;
    return true;
  }
  if (!slopes(name, at, 3e-5, &fine)) return false;
  double error = std::abs(coarse.central - fine.central);
  if (!close(coarse.left, coarse.right, 1e-3, 1 + std::abs(coarse.central)) || !(error <= 1e-4 * scale)) {
    ++report_.kinks;
    return true;
  }
  if (std::abs(got - fine.central) <= test_.tolerance * scale + 4 * error) {
    ++report_.compared;
    return true;
  }
  return found(GradFault::values,
               fmt::format("d_{}[{}] is {}, differences say {}", name, at, got, fine.central));
}

bool GradientJudge::differences() {
  for (const std::string& name : wrt_) {
    size_t count = test_.arrays.at(name).values.size();
    std::vector<size_t> order(count);
    for (size_t i = 0; i < count; ++i) order[i] = i;
    if (test_.samples >= 0 && static_cast<size_t>(test_.samples) < count) {
      std::shuffle(order.begin(), order.end(), random_);
      order.resize(static_cast<size_t>(test_.samples));
    }
    for (size_t at : order)
      if (!element(name, at)) return false;
  }
  return true;
}

KernelGradReport GradientJudge::run() {
  if (!prepare() || !forward()) return std::move(report_);
  drawCotangents();
  if (vjp() && text() && bindVjp() && backward() && expected() && test_.differences) differences();
  return std::move(report_);
}

/// The VJP differentiated again, with respect to all it is given.
KernelGradCase GradientJudge::second() {
  KernelGradCase out;
  if (!prepare() || !forward()) return out;
  drawCotangents();
  if (!vjp() || !bindVjp()) return out;
  for (const auto& item : module_->items) out.text += print(*item) + "\n";
  out.kernel = vjpKernel_->name;
  out.arrays = vjpArrays_;
  out.checkpoint = test_.checkpoint;
  out.seed = test_.seed + 1;
  out.samples = 4;
  out.f32Tolerance = 10 * test_.f32Tolerance;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Value& arg = *vjpKernel_->body.args[i];
    Role role = params_[i].role;
    if (!isFloat(arg.type.dtype) || role == Role::tape) continue;
    if (role == Role::gradient || role == Role::adjoint) out.of.push_back(arg.name);
    if (role != Role::gradient) out.wrt.push_back(arg.name);
  }
  return out;
}

/// The faults in declaration order.
constexpr std::string_view kFaultNames[] = {"none",   "forward",  "refused", "verify", "text",    "run",
                                            "faults", "schedule", "values",  "f32",    "expected"};

}  // namespace

std::string_view name(GradFault fault) { return kFaultNames[static_cast<size_t>(fault)]; }

KernelGradReport checkKernelGradient(const KernelGradCase& test) { return GradientJudge(test).run(); }

KernelGradCase secondDerivative(const KernelGradCase& test) { return GradientJudge(test).second(); }

bool expectKernelGradient(const KernelGradCase& test) {
  KernelGradReport report = checkKernelGradient(test);
  EXPECT_EQ(report.fault, GradFault::none) << name(report.fault) << ": " << report.what << "\n"
                                           << test.text << "\n"
                                           << report.vjp;
  return report.fault == GradFault::none;
}

}  // namespace tg::test
