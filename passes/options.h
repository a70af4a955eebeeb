// SPDX-License-Identifier: Apache-2.0
// The options of every pass: one struct each, whose fields are described once. The text of pipelines, flags, help and docs
// are generated from these descriptions.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

/// How a name pattern is written (see globMatch).
#define TG_NAME_PATTERN ": * matches any text, ? one character, a|b either pattern"
/// The option of a pass that explains itself in remarks.
#define TG_REPORT(Options) option("report", &Options::report, "print what the pass decides, and why")

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
               "calls whose mean gradient makes one update; from 2 on the updates are in a function @apply"),
        option("checkpoint", &AppendGradOptions::checkpoint,
               "keep the state of a kernel's loop every N iterations and recompute the rest; 0: keep all"),
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
        option("func", &DataParallelOptions::func, "the differentiated function"),
        option("bucket", &DataParallelOptions::bucket,
               "bytes of gradients at which a bucket is full; 0: a bucket for each gradient"),
        option("shard", &DataParallelOptions::shard,
               "none | optimizer: each rank keeps the optimizer's states of its shard of each parameter, and "
               "updates that shard"),
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
  bool report = false;
  static constexpr auto fields() {
    return std::tuple{
        option("precision", &MixedPrecisionOptions::precision,
               "f16 | bf16: products of values stored in 16 bits; f32x3: f32 products by three of f16"),
        option("func", &MixedPrecisionOptions::func, "the differentiated function"),
        option("loss-scale", &MixedPrecisionOptions::lossScale,
               "the initial loss scale, a power of two up to 2^24; 0: none. Only for f16"),
        option("growth", &MixedPrecisionOptions::growth,
               "finite steps in a row after which the scale doubles; any other step halves it"),
        TG_REPORT(MixedPrecisionOptions),
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
        option("func", &OptimizerOptions::func, "the differentiated function"),
        option("lr", &OptimizerOptions::lr,
               "learning rate, or a rate schedule such as warmup(100, cosine(1e-3, 1e-4, 10000))"),
    };
  }
  static constexpr auto gradients(const char* decayHelp) {
    return std::tuple{
        option("match", &OptimizerOptions::match,
               "parameters that this optimizer updates (empty: all), by name pattern" TG_NAME_PATTERN),
        option("weight-decay", &OptimizerOptions::weightDecay, decayHelp),
        option("no-decay", &OptimizerOptions::noDecay,
               "parameters without weight decay, by name pattern" TG_NAME_PATTERN),
        option("clip-norm", &OptimizerOptions::clipNorm,
               "largest L2 norm of all gradients together; 0: no clipping"),
        option("normalize-grads", &OptimizerOptions::normalizeGrads,
               "parameters whose gradient is scaled to L2 norm 1 before clipping (no value: all), by name "
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
            option("kind", &AppendAdamOptions::kind, "adam | adamw: adamw requires a weight-decay above 0"),
            option("beta1", &AppendAdamOptions::beta1, "decay rate of the first moment"),
            option("beta2", &AppendAdamOptions::beta2, "decay rate of the second moment"),
            option("eps", &AppendAdamOptions::eps, "added to the square root of the second moment"),
            option("corrected-eps", &AppendAdamOptions::correctedEps,
                   "add eps after the bias correction of that root, as PyTorch does, not before"),
        },
        gradients("decoupled weight decay (AdamW): each step subtracts lr·decay·parameter; 0 is Adam"));
  }
};

struct AppendSgdOptions : OptimizerOptions {
  double momentum = 0;
  bool nesterov = false;
  static constexpr auto fields() {
    return std::tuple_cat(
        rate(),
        std::tuple{
            option("momentum", &AppendSgdOptions::momentum,
                   "factor of the velocity, below 1; 0: no velocity"),
            option("nesterov", &AppendSgdOptions::nesterov, "Nesterov momentum; needs a momentum above 0"),
        },
        gradients("L2 penalty: this times the parameter is added to its gradient"));
  }
};

struct SetBatchOptions {
  int64_t n = 0;
  std::string func = "*";
  static constexpr auto fields() {
    return std::tuple{
        option("n", &SetBatchOptions::n, "the new extent of the batch axes, 1 or more"),
        option("func", &SetBatchOptions::func, "functions to change, by name pattern" TG_NAME_PATTERN),
    };
  }
};

struct SetDimOptions {
  std::string name;
  int64_t n = 0;
  static constexpr auto fields() {
    return std::tuple{
        option("name", &SetDimOptions::name, "the name of the axes in dims = […], such as time"),
        option("n", &SetDimOptions::n, "their new extent, 1 or more"),
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
               "the kernel, also given as @NAME before the other options; empty: the only one"),
        option("wrt", &KernelVjpOptions::wrt,
               "parameters to differentiate with respect to, [x, w]; empty: all in and inout floats"),
        option("of", &KernelVjpOptions::of,
               "results to differentiate, [o]; empty: all out, inout and accum floats"),
        option("checkpoint", &KernelVjpOptions::checkpoint,
               "keep the state of a loop every N iterations and recompute the rest; 0: keep all"),
    };
  }
};

struct SetTargetOptions {
  std::string target = {};
  static constexpr auto fields() {
    return std::tuple{
        option("target", &SetTargetOptions::target,
               "shipped target or JSON file; empty: the module's own or, if it has none, vulkan-min")};
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
               "keep the gradients of parameters readable after the step"),
    };
  }
};

struct ExactSumsOptions {
  bool deterministic = true;
  static constexpr auto fields() {
    return std::tuple{
        option("deterministic", &ExactSumsOptions::deterministic,
               "make the f32 atomic sums of custom kernels exact, independent of the order of invocations"),
    };
  }
};

// Passes of fuse. Several have the option `report`; fuse{report=true} sets it in all of them.

struct SplitRowsOptions {
  std::string limit = {};
  static constexpr auto fields() {
    return std::tuple{
        option("limit", &SplitRowsOptions::limit,
               "most bytes of a value computed in one piece, as 256MiB; empty: the target's storage_range"),
    };
  }
};

struct FlattenOptimizerOptions {
  std::string group = "512MiB";
  static constexpr auto fields() {
    return std::tuple{
        option("group", &FlattenOptimizerOptions::group,
               "most bytes of parameters that one kernel updates, as soon as their gradients are computed"),
    };
  }
};

struct SplitReductionsOptions {
  bool winograd = true;
  std::string budget = {};
  static constexpr auto fields() {
    return std::tuple{
        option("winograd", &SplitReductionsOptions::winograd,
               "compute 3x3 convolutions of f32 by Winograd's algorithm where that is faster"),
        option("budget", &SplitReductionsOptions::budget,
               "the budget of plan: a convolution's transformed image may take a sixteenth of it"),
    };
  }
};

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
               "least bytes of a value that is recomputed for gradients instead of kept, if that is cheap "
               "and lowers the memory peak; 0: keep all"),
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
               "the budget of plan: where more is live, recomputed values keep kernels of their own"),
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
               "bytes reserved at the start of @persistent, for parameters that come with a place there"),
        option("order", &PlanOptions::order,
               "barriers: reorder kernels so that few barriers are needed; text: keep their order"),
        option("slack", &PlanOptions::slack,
               "bytes that @arena may grow for fewer barriers; at least a twentieth of it, up to 48 MiB"),
        option("budget", &PlanOptions::budget,
               "most bytes of all buffers, such as 8GiB, or least: values are recomputed to stay within it"),
        option("report", &PlanOptions::report, "print what is live at the memory peak, and its lower bound"),
    };
  }
};

struct SpirvEmitOptions {
  std::string emit = "spirv";
  std::string cache;
  static constexpr auto fields() {
    return std::tuple{
        option("emit", &SpirvEmitOptions::emit, "kernel | glsl | spirv: the form of kernels to produce"),
        option("cache", &SpirvEmitOptions::cache, "folder of compiled shaders; empty: no cache")};
  }
};

#undef TG_REPORT
#undef TG_NAME_PATTERN

}  // namespace tg
