// The options of every pass: a struct each, its fields described once. Pipeline text, flags,
// help and docs read the same descriptions.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

namespace tg {

/// One field of an options struct: its text name, the member, what it means.
template <class S, class T>
struct OptionField {
  const char* name;
  T S::*member;
  const char* help;
};
template <class S, class T>
constexpr OptionField<S, T> option(const char* name, T S::*member, const char* help) {
  return {name, member, help};
}

struct NoOptions {
  static constexpr auto fields() { return std::tuple{}; }
};

struct AppendGradOptions {
  std::string func = "train";
  std::string wrt = "*";
  static constexpr auto fields() {
    return std::tuple{
        option("func", &AppendGradOptions::func, "the function whose first result is differentiated"),
        option("wrt", &AppendGradOptions::wrt, "parameters to differentiate, by name pattern"),
    };
  }
};

struct AppendAdamOptions {
  std::string func = "train";
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weightDecay = 0;
  std::string noDecay;
  double clipNorm = 0;
  static constexpr auto fields() {
    return std::tuple{
        option("func", &AppendAdamOptions::func, "the function that holds the gradients"),
        option("lr", &AppendAdamOptions::lr, "learning rate the host starts with"),
        option("beta1", &AppendAdamOptions::beta1, "decay of the first moment"),
        option("beta2", &AppendAdamOptions::beta2, "decay of the second moment"),
        option("eps", &AppendAdamOptions::eps, "added to the root of the second moment"),
        option("weight-decay", &AppendAdamOptions::weightDecay, "decoupled weight decay (AdamW); 0 is Adam"),
        option("no-decay", &AppendAdamOptions::noDecay, "parameters never decayed, by name pattern"),
        option("clip-norm", &AppendAdamOptions::clipNorm, "largest global gradient norm; 0 is no clipping"),
    };
  }
};

struct FuseOptions {
  std::string target = "vulkan-min";
  std::string keepCaptures = "*";
  bool keepGrads = false;
  std::string tuning;
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{
        option("target", &FuseOptions::target, "a shipped target's name or a JSON file"),
        option("keep-captures", &FuseOptions::keepCaptures, "captures to keep, by name pattern"),
        option("keep-grads", &FuseOptions::keepGrads, "keep parameter gradients readable after the step"),
        option("tuning", &FuseOptions::tuning, "a file of schedules measured on the target"),
        option("report", &FuseOptions::report, "say for each kernel what it holds and why it ends there"),
    };
  }
};

struct PlanOptions {
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{option("report", &PlanOptions::report, "print what is live at the peak")};
  }
};

struct SpirvEmitOptions {
  std::string emit = "spirv";
  static constexpr auto fields() {
    return std::tuple{option("emit", &SpirvEmitOptions::emit, "kernel | glsl | spirv: where to stop")};
  }
};

}  // namespace tg
