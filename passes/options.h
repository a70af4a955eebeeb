// SPDX-License-Identifier: Apache-2.0
// The options of every pass: one struct each, whose fields are described once. The text of pipelines, flags, help and docs
// are generated from these descriptions.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

/// How a name pattern is written (see globMatch).
#define TG_NAME_PATTERN ": * stands for any letters, ? for one, | between patterns for either"

namespace tg {

/// One field of an options struct: its name in text, the member, its meaning, and for some strings the value that the name
/// alone stands for (null: a value must follow).
template <class S, class T>
struct OptionField {
  const char* name;
  T S::*member;
  const char* help;
  const char* bare = nullptr;
};
template <class S, class T>
constexpr OptionField<S, T> option(const char* name, T S::*member, const char* help,
                                   const char* bare = nullptr) {
  return {name, member, help, bare};
}

struct NoOptions {
  static constexpr auto fields() { return std::tuple{}; }
};

struct AppendGradOptions {
  std::string func = "train";
  std::string wrt = "*";
  int64_t accumulate = 1;
  int64_t checkpoint = 0;
  static constexpr auto fields() {
    return std::tuple{
        option("func", &AppendGradOptions::func, "the function whose first result is differentiated"),
        option("wrt", &AppendGradOptions::wrt,
               "parameters to differentiate, by name pattern" TG_NAME_PATTERN),
        option("accumulate", &AppendGradOptions::accumulate,
               "calls whose mean gradient makes one step; from 2 on updates go to @apply"),
        option(
            "checkpoint", &AppendGradOptions::checkpoint,
            "trips of a kernel's loop between kept states, which are computed again; 0 keeps every trip's"),
    };
  }
};

struct DataParallelOptions {
  std::string func = "train";
  int64_t bucket = 8 << 20;
  std::string shard = "none";
  int64_t ranks = 1;
  static constexpr auto fields() {
    return std::tuple{
        option("func", &DataParallelOptions::func, "the function that was differentiated"),
        option("bucket", &DataParallelOptions::bucket,
               "bytes from which on a bucket of gradients is full; 0: a bucket for each gradient"),
        option(
            "shard", &DataParallelOptions::shard,
            "none | optimizer: each rank keeps the moments of its shard of every parameter, and updates that "
            "shard"),
        option("ranks", &DataParallelOptions::ranks,
               "number of ranks, for shard=optimizer; tg-run sets it to the number that mpirun started"),
    };
  }
};

struct MixedPrecisionOptions {
  std::string precision = "f16";
  std::string func = "train";
  double lossScale = 65536;
  int64_t growth = 2000;
  static constexpr auto fields() {
    return std::tuple{
        option(
            "precision", &MixedPrecisionOptions::precision,
            "f16 | bf16: products of 16 bits, which memory holds; f32x3: of f32, by three of f16 in kernels"),
        option("func", &MixedPrecisionOptions::func, "the function that was differentiated"),
        option("loss-scale", &MixedPrecisionOptions::lossScale,
               "the first scale of the loss, a power of two; 0: none; only f16 has one"),
        option("growth", &MixedPrecisionOptions::growth, "finite steps until the scale doubles"),
    };
  }
};

/// The options that all optimizers have.
struct OptimizerOptions {
  std::string func = "train";
  Attr lr = Attr::of(1e-3);  ///< a rate or a rate schedule
  double weightDecay = 0;
  std::string noDecay;
  double clipNorm = 0;
  std::string normalizeGrads;
  std::string match;
  static constexpr auto rate() {
    return std::tuple{
        option("func", &OptimizerOptions::func, "the function that was differentiated"),
        option("lr", &OptimizerOptions::lr,
               "learning rate, or a rate schedule such as warmup(100, cosine(1e-3, 1e-4, 10000))"),
    };
  }
  static constexpr auto gradients(const char* decayHelp) {
    return std::tuple{
        option("match", &OptimizerOptions::match,
               "the parameters to train, if others have an optimizer of their own, by name "
               "pattern" TG_NAME_PATTERN),
        option("weight-decay", &OptimizerOptions::weightDecay, decayHelp),
        option("no-decay", &OptimizerOptions::noDecay,
               "parameters never decayed, by name pattern" TG_NAME_PATTERN),
        option("clip-norm", &OptimizerOptions::clipNorm, "largest global gradient norm; 0 is no clipping"),
        option("normalize-grads", &OptimizerOptions::normalizeGrads,
               "parameters whose gradient is scaled to norm 1 before clipping (the name alone: all), by name "
               "pattern" TG_NAME_PATTERN,
               "*"),
    };
  }
};

struct AppendAdamOptions : OptimizerOptions {
  std::string kind = "adam";
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool correctedEps = false;
  static constexpr auto fields() {
    return std::tuple_cat(
        rate(),
        std::tuple{
            option("kind", &AppendAdamOptions::kind, "adam | adamw: adamw insists on a weight decay"),
            option("beta1", &AppendAdamOptions::beta1, "decay of the first moment"),
            option("beta2", &AppendAdamOptions::beta2, "decay of the second moment"),
            option("eps", &AppendAdamOptions::eps, "added to the root of the second moment"),
            option("corrected-eps", &AppendAdamOptions::correctedEps,
                   "add eps to that root after the bias correction, as PyTorch does, instead of before it"),
        },
        gradients("decoupled weight decay (AdamW); 0 is Adam"));
  }
};

struct AppendSgdOptions : OptimizerOptions {
  double momentum = 0;
  bool nesterov = false;
  static constexpr auto fields() {
    return std::tuple_cat(
        rate(),
        std::tuple{
            option("momentum", &AppendSgdOptions::momentum, "share of the velocity kept; 0 keeps none"),
            option("nesterov", &AppendSgdOptions::nesterov, "step to where the velocity leads next"),
        },
        gradients("times the parameter, added to its gradient (L2)"));
  }
};

struct SetBatchOptions {
  int64_t n = 0;
  std::string func = "*";
  static constexpr auto fields() {
    return std::tuple{
        option("n", &SetBatchOptions::n, "the new extent of every axis that an argument calls its batch"),
        option("func", &SetBatchOptions::func, "the functions, by name pattern" TG_NAME_PATTERN),
    };
  }
};

struct SetDimOptions {
  std::string name;
  int64_t n = 0;
  static constexpr auto fields() {
    return std::tuple{
        option("name", &SetDimOptions::name, "what dims = […] calls the axes, such as time"),
        option("n", &SetDimOptions::n, "their new extent"),
    };
  }
};

struct KernelVjpOptions {
  std::string kernel;
  std::string wrt;
  std::string of;
  int64_t checkpoint = 0;
  static constexpr auto fields() {
    return std::tuple{
        option("kernel", &KernelVjpOptions::kernel,
               "the kernel; @NAME before the other options says the same; none: the only one"),
        option("wrt", &KernelVjpOptions::wrt,
               "parameters to differentiate by, [x, w]; none: all in and inout floats"),
        option("of", &KernelVjpOptions::of,
               "results to differentiate, [o]; none: all out, inout and accum floats"),
        option("checkpoint", &KernelVjpOptions::checkpoint,
               "trips of a loop between kept states, which are computed again; 0 keeps every trip's"),
    };
  }
};

struct SetTargetOptions {
  std::string target = {};
  static constexpr auto fields() {
    return std::tuple{
        option("target", &SetTargetOptions::target,
               "a shipped target's name or a JSON file; empty is the module's own, and vulkan-min "
               "where it has none")};
  }
};

struct DropCapturesOptions {
  std::string keepCaptures = "*";
  bool keepGrads = false;
  static constexpr auto fields() {
    return std::tuple{
        option("keep-captures", &DropCapturesOptions::keepCaptures,
               "captures to keep, by name pattern" TG_NAME_PATTERN),
        option("keep-grads", &DropCapturesOptions::keepGrads,
               "keep parameter gradients readable after the step"),
    };
  }
};

struct ExactSumsOptions {
  bool deterministic = true;
  static constexpr auto fields() {
    return std::tuple{
        option("deterministic", &ExactSumsOptions::deterministic,
               "make the f32 sums of custom kernels exact, so that no order of invocations shows"),
    };
  }
};

// Passes of fuse. Several have the option `report`; fuse{report=true} sets it in all of them.

struct SplitRowsOptions {
  std::string limit = {};
  static constexpr auto fields() {
    return std::tuple{
        option("limit", &SplitRowsOptions::limit,
               "bytes of the largest value that is computed whole, such as 256MiB; empty is what one binding "
               "of the target may span"),
    };
  }
};

struct FlattenOptimizerOptions {
  std::string group = "512MiB";
  static constexpr auto fields() {
    return std::tuple{
        option("group", &FlattenOptimizerOptions::group,
               "bytes of the parameters that one kernel updates, if there are more; each group is updated as "
               "soon as its gradients are there"),
    };
  }
};

#define TG_REPORT(Options) option("report", &Options::report, "say of kernels what the pass decides, and why")

struct FormRegionsOptions {
  bool report = false;
  static constexpr auto fields() { return std::tuple{TG_REPORT(FormRegionsOptions)}; }
};

struct RematerializeOptions {
  int64_t recompute = 262144;
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{
        option("recompute", &RematerializeOptions::recompute,
               "least bytes of a value that, where memory is highest, is not kept for gradients but computed "
               "again, if that costs little; 0: keep all"),
        TG_REPORT(RematerializeOptions),
    };
  }
};

struct MergeKernelsOptions {
  std::string budget = {};
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{
        option("budget", &MergeKernelsOptions::budget,
               "the budget that plan is given: where more is alive, what is computed again stays a kernel of "
               "its own"),
        TG_REPORT(MergeKernelsOptions),
    };
  }
};

struct ChooseSchedulesOptions {
  std::string tuning;
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{
        option("tuning", &ChooseSchedulesOptions::tuning, "a file of schedules measured on the target"),
        TG_REPORT(ChooseSchedulesOptions),
    };
  }
};

struct PlanOptions {
  int64_t reserve = 0;
  std::string order = "barriers";
  int64_t slack = int64_t(1) << 24;
  std::string budget = {};
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{
        option("reserve", &PlanOptions::reserve,
               "bytes at the start of @persistent for parameters that come with a home"),
        option("order", &PlanOptions::order,
               "barriers | text: regroup kernels for few barriers, or keep their order"),
        option(
            "slack", &PlanOptions::slack,
            "bytes that the arena may grow for fewer barriers, where they are more than a twentieth of it"),
        option("budget", &PlanOptions::budget,
               "bytes of all buffers together, such as 8GiB, or least: kernels run again to stay within it"),
        option("report", &PlanOptions::report, "print what is live at the peak"),
    };
  }
};

struct SpirvEmitOptions {
  std::string emit = "spirv";
  std::string cache;
  static constexpr auto fields() {
    return std::tuple{
        option("emit", &SpirvEmitOptions::emit, "kernel | glsl | spirv: where to stop"),
        option("cache", &SpirvEmitOptions::cache, "folder that keeps compiled shaders; empty is none")};
  }
};

#undef TG_REPORT
#undef TG_NAME_PATTERN

}  // namespace tg
