#include "runtime/interp/kernel_interp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/interp/kernel_program.h"
#include "runtime/interp/race_shadow.h"

namespace tg {
namespace {

constexpr size_t kFindings = 16;
constexpr uint32_t kPoison = 0x7fc0dead;  // a NaN that no arithmetic makes

/// Where a memory's words are while the kernel runs.
struct Region {
  std::byte* data = nullptr;  // storage; null for shared and local
  RaceShadow* shadow = nullptr;
  int64_t shadowStart = 0;  // of the region's first word in the shadow
};

class Machine {
 public:
  Machine(const Item& kernel, Program program, std::span<KernelBuffer> buffers, std::array<int64_t, 3> grid,
          const KernelRunOptions& options);
  Result<KernelCounters> run();

 private:
  enum class Pace : uint8_t { free, toStore, one };
  enum class Status : uint8_t { running, waiting, done };

  void bind(std::span<KernelBuffer> buffers);
  Result<void> group(int64_t index);
  void startLanes(int64_t index);
  void advance();
  void advanceLockstep();
  Result<bool> meet();
  void fold(const Reduction& reduction);
  template <Pace pace>
  void step(uint32_t lane);
  Word* locate(const Access& access, const Word* regs, uint32_t lane, RaceShadow::Kind kind);
  void check(const Access& access, int64_t word, uint32_t lane, RaceShadow::Kind kind);
  void outside(const Access& access, uint32_t lane);
  void find(const Access& access, uint32_t lane, const std::string& what);
  void addTo(const Access& access, const Word* regs, uint32_t lane, Word value, bool isFloat);
  Word* laneRegs(uint32_t lane) { return &regs_[static_cast<size_t>(lane) * program_.initial.size()]; }
  uint32_t globalLane(uint32_t lane) const { return static_cast<uint32_t>(group_ * lanes_) + lane; }

  const Item& kernel_;
  Program program_;
  std::array<int64_t, 3> grid_;
  KernelRunOptions options_;
  uint32_t lanes_;
  std::vector<Region> regions_;
  std::vector<RaceShadow> shadows_;
  std::vector<Word> regs_, shared_, local_;
  std::vector<uint32_t> pc_, order_;
  std::vector<Status> status_;
  uint32_t epoch_ = 0, groupStart_ = 0;
  int64_t group_ = 0;
  bool zeroStep_ = false;
  KernelCounters counters_;
};

Machine::Machine(const Item& kernel, Program program, std::span<KernelBuffer> buffers,
                 std::array<int64_t, 3> grid, const KernelRunOptions& options)
    : kernel_(kernel), program_(std::move(program)), grid_(grid), options_(options),
      lanes_(static_cast<uint32_t>(kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2])),
      regs_(lanes_ * program_.initial.size()), shared_(program_.sharedWords),
      local_(static_cast<size_t>(lanes_) * program_.localWords), pc_(lanes_), status_(lanes_) {
  for (uint32_t lane = 0; lane < lanes_; ++lane)
    order_.push_back(options.reversed ? lanes_ - 1 - lane : lane);
  bind(buffers);
}

/// Gives each memory its bytes and, where something is written, a shadow. Buffers that overlap get one
/// shadow together, so that a race through two names of the same bytes is seen.
void Machine::bind(std::span<KernelBuffer> buffers) {
  regions_.resize(program_.memories.size());
  for (size_t index = 0; index < buffers.size(); ++index) regions_[index].data = buffers[index].data;
  if (!options_.checks) return;
  std::vector<size_t> byAddress(buffers.size());
  for (size_t index = 0; index < buffers.size(); ++index) byAddress[index] = index;
  std::sort(byAddress.begin(), byAddress.end(),
            [&](size_t a, size_t b) { return buffers[a].data < buffers[b].data; });
  shadows_.reserve(buffers.size() + 1);
  for (size_t first = 0, last; first < byAddress.size(); first = last) {
    std::byte* start = buffers[byAddress[first]].data;
    std::byte* end = start;
    bool written = false;
    for (last = first; last < byAddress.size() && (last == first || buffers[byAddress[last]].data < end);
         ++last) {
      const KernelBuffer& buffer = buffers[byAddress[last]];
      end = std::max(end, buffer.data + buffer.bytes);
      written |= program_.memories[byAddress[last]].mode != BufMode::in;
    }
    if (!written) continue;
    shadows_.emplace_back((end - start) / 4, true);
    for (size_t at = first; at < last; ++at)
      regions_[byAddress[at]] = {buffers[byAddress[at]].data, &shadows_.back(),
                                 (buffers[byAddress[at]].data - start) / 4};
  }
  shadows_.emplace_back(program_.sharedWords, false);
  for (size_t index = buffers.size(); index < regions_.size(); ++index)
    if (program_.memories[index].mode == BufMode::shared)
      regions_[index] = {nullptr, &shadows_.back(), program_.memories[index].start};
}

void Machine::find(const Access& access, uint32_t lane, const std::string& what) {
  if (counters_.findings.size() >= kFindings) return;
  std::string at = locString(access.op->loc);
  counters_.findings.push_back(fmt::format("{}{}{} on %{}: {}, invocation {}", at, at.empty() ? "" : ": ",
                                           access.op->info().name, access.buffer->name, what,
                                           globalLane(lane)));
}

void Machine::outside(const Access& access, uint32_t lane) {
  ++counters_.outOfRange;
  std::string indices;
  for (size_t axis = 0; axis < access.index.size(); ++axis) {
    Word at = laneRegs(lane)[access.index[axis]];
    indices += fmt::format("{}{}", axis ? ", " : "", access.isSigned[axis] ? int64_t{at.i} : int64_t{at.u});
  }
  find(access, lane, fmt::format("index [{}] is out of range", indices));
}

void Machine::check(const Access& access, int64_t word, uint32_t lane, RaceShadow::Kind kind) {
  const Region& region = regions_[access.memory];
  bool raced = false, again = false;
  uint32_t other = 0;
  for (uint32_t part = 0; part < access.width; ++part) {
    int64_t at = region.shadowStart + word + part;
    if (!raced) other = region.shadow->lastLane(at);
    raced |= region.shadow->touch(at, kind, globalLane(lane), epoch_, groupStart_);
    if (kind == RaceShadow::Kind::write && program_.memories[access.memory].mode == BufMode::out)
      again |= region.shadow->rewritten(at);
  }
  int64_t element = word / access.width;
  if (raced) {
    ++counters_.races;
    find(access, lane, fmt::format("element {} races with invocation {}", element, other));
  }
  if (again) {
    ++counters_.rewrites;
    find(access, lane, fmt::format("element {} is written again", element));
  }
}

/// The words of an element, or null when it is out of range.
Word* Machine::locate(const Access& access, const Word* regs, uint32_t lane, RaceShadow::Kind kind) {
  const Memory& memory = program_.memories[access.memory];
  int64_t element = 0;
  for (size_t axis = 0; axis < access.index.size(); ++axis) {
    Word at = regs[access.index[axis]];
    int64_t index = access.isSigned[axis] ? int64_t{at.i} : int64_t{at.u};
    if (index < 0 || index >= memory.extents[axis]) {
      outside(access, lane);
      return nullptr;
    }
    element = element * memory.extents[axis] + index;
  }
  int64_t word = element * access.width;
  const Region& region = regions_[access.memory];
  if (region.shadow) check(access, word, lane, kind);
  if (memory.mode == BufMode::shared) return &shared_[static_cast<size_t>(memory.start + word)];
  if (memory.mode == BufMode::local)
    return &local_[static_cast<size_t>(lane) * program_.localWords +
                   static_cast<size_t>(memory.start + word)];
  return reinterpret_cast<Word*>(region.data + 4 * word);
}

void Machine::addTo(const Access& access, const Word* regs, uint32_t lane, Word value, bool isFloat) {
  Word* place = locate(access, regs, lane, RaceShadow::Kind::atomic);
  if (!place) return;
  Word old;
  std::memcpy(&old, place, 4);
  if (isFloat)
    old.f += value.f;
  else
    old.u += value.u;
  std::memcpy(place, &old, 4);
}

/// Runs one invocation: until it waits or ends, through its next store, or for one instruction.
template <Machine::Pace pace>
void Machine::step(uint32_t lane) {
  Word* regs = laneRegs(lane);
  uint32_t pc = pc_[lane];
  bool stop = false;
  while (!stop) {
    const Instr& in = program_.code[pc++];
    stop = pace == Pace::one;
    switch (in.code) {
#define X(name, field, value)                                                   \
  case Code::name: {                                                            \
    [[maybe_unused]] const Word x = regs[in.a], y = regs[in.b], z = regs[in.c]; \
    regs[in.dst].field = value;                                                 \
    break;                                                                      \
  }
      TG_LANE_CODES(X)
#undef X
    case Code::load: {
      const Access& access = program_.accesses[in.a];
      const Word* from = locate(access, regs, lane, RaceShadow::Kind::read);
      if (from)
        std::memcpy(&regs[in.dst], from, 4 * access.width);
      else
        std::memset(&regs[in.dst], 0, 4 * access.width);
      break;
    }
    case Code::store: {
      const Access& access = program_.accesses[in.a];
      if (Word* to = locate(access, regs, lane, RaceShadow::Kind::write))
        std::memcpy(to, &regs[in.b], 4 * access.width);
      stop = pace != Pace::free;
      break;
    }
    case Code::atomicF:
    case Code::atomicI:
      addTo(program_.accesses[in.a], regs, lane, regs[in.b], in.code == Code::atomicF);
      stop = pace != Pace::free;
      break;
    case Code::jump: pc = in.a; break;
    case Code::jumpUnless:
      if (!regs[in.b].u) pc = in.a;
      break;
    case Code::checkStep:
      if (regs[in.b].u != 0) break;
      zeroStep_ = true;
      status_[lane] = Status::done;
      stop = true;
      break;
    case Code::barrier:
    case Code::reduce:
      status_[lane] = Status::waiting;
      stop = true;
      break;
    case Code::end:
      status_[lane] = Status::done;
      stop = true;
      break;
    }
  }
  pc_[lane] = pc;
}

void Machine::advanceLockstep() {
  for (;;) {
    uint32_t earliest = UINT32_MAX;
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      if (status_[lane] == Status::running) earliest = std::min(earliest, pc_[lane]);
    if (earliest == UINT32_MAX) return;
    for (uint32_t lane : order_)
      if (status_[lane] == Status::running && pc_[lane] == earliest) step<Pace::one>(lane);
  }
}

/// Runs all invocations of the workgroup until each waits or is done.
void Machine::advance() {
  if (options_.order == LaneOrder::lockstep) return advanceLockstep();
  bool whole = options_.order == LaneOrder::wholeLane;
  for (bool any = true; any;) {
    any = false;
    for (uint32_t lane : order_) {
      if (status_[lane] != Status::running) continue;
      whole ? step<Pace::free>(lane) : step<Pace::toStore>(lane);
      any |= status_[lane] == Status::running;
    }
  }
}

template <class T>
T folded(Reduction::Kind kind, T x, T y) {
  if (kind == Reduction::Kind::add) return static_cast<T>(x + y);
  if constexpr (std::is_same_v<T, float>)
    return kind == Reduction::Kind::min ? lane_math::min(x, y) : lane_math::max(x, y);
  else
    return kind == Reduction::Kind::min ? std::min(x, y) : std::max(x, y);
}

/// The tree of the printed shader: a power of two of invocations takes in the other half, halving.
void Machine::fold(const Reduction& reduction) {
  for (uint32_t part = 0; part < reduction.width; ++part) {
    std::vector<Word> values;
    for (uint32_t lane = 0; lane < lanes_; ++lane)
      values.push_back(laneRegs(lane)[reduction.source + (reduction.repeated ? 0 : part)]);
    for (uint32_t width = std::bit_ceil(lanes_) / 2; width > 0; width >>= 1)
      for (uint32_t at = 0; at < width && at + width < lanes_; ++at) {
        Word &x = values[at], y = values[at + width];
        if (isFloat(reduction.dtype))
          x.f = folded(reduction.kind, x.f, y.f);
        else if (reduction.kind == Reduction::Kind::add || reduction.dtype == DType::u32)
          x.u = folded(reduction.kind, x.u, y.u);
        else
          x.i = folded(reduction.kind, x.i, y.i);
      }
    for (uint32_t lane = 0; lane < lanes_; ++lane) laneRegs(lane)[reduction.dst + part] = values[0];
  }
}

/// Lets the workgroup go on after a barrier; false when all invocations are done.
Result<bool> Machine::meet() {
  if (std::all_of(status_.begin(), status_.end(), [](Status status) { return status == Status::done; }))
    return false;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    if (status_[lane] == Status::waiting && pc_[lane] == pc_[order_[0]]) continue;
    uint32_t waiting = 0;
    while (status_[waiting] != Status::waiting) ++waiting;
    const Op* op = program_.ops[pc_[waiting] - 1];
    return failAt(op->loc, fmt::format("kernel @{}: {} is reached by some invocations of a workgroup only",
                                       kernel_.name, op->info().name));
  }
  const Instr& at = program_.code[pc_[0] - 1];
  if (at.code == Code::reduce) fold(program_.reductions[at.a]);
  std::fill(status_.begin(), status_.end(), Status::running);
  ++epoch_;
  return true;
}

void Machine::startLanes(int64_t index) {
  std::array<int64_t, 3> group{index % grid_[0], index / grid_[0] % grid_[1], index / (grid_[0] * grid_[1])};
  const auto& size = kernel_.workgroup;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    Word* regs = laneRegs(lane);
    std::copy(program_.initial.begin(), program_.initial.end(), regs);
    std::array<int64_t, 3> local{lane % size[0], lane / size[0] % size[1], lane / (size[0] * size[1])};
    for (size_t axis = 0; axis < 3; ++axis) {
      regs[axis].u = static_cast<uint32_t>(group[axis] * size[axis] + local[axis]);
      regs[3 + axis].u = static_cast<uint32_t>(local[axis]);
      regs[6 + axis].u = static_cast<uint32_t>(group[axis]);
      regs[9 + axis].u = static_cast<uint32_t>(grid_[axis]);
    }
  }
  std::fill(pc_.begin(), pc_.end(), 0);
  std::fill(status_.begin(), status_.end(), Status::running);
  std::fill(shared_.begin(), shared_.end(), Word{kPoison});
  std::fill(local_.begin(), local_.end(), Word{kPoison});
}

Result<void> Machine::group(int64_t index) {
  group_ = index;
  groupStart_ = ++epoch_;
  startLanes(index);
  for (bool more = true; more;) {
    advance();
    if (zeroStep_) return failAt(kernel_.loc, fmt::format("kernel @{}: a loop's step is 0", kernel_.name));
    TG_TRY(more, meet());
  }
  return {};
}

Result<KernelCounters> Machine::run() {
  int64_t groups = grid_[0] * grid_[1] * grid_[2];
  for (int64_t index = 0; index < groups; ++index)
    TG_CHECK(group(options_.reversed ? groups - 1 - index : index));
  return std::move(counters_);
}

}  // namespace

Result<KernelCounters> runKernel(const Item& kernel, std::span<KernelBuffer> buffers,
                                 std::array<int64_t, 3> grid, const KernelRunOptions& options) {
  const auto& params = kernel.body.args;
  if (buffers.size() != params.size())
    return failAt(kernel.loc, fmt::format("kernel @{} has {} buffers, {} are given", kernel.name,
                                          params.size(), buffers.size()));
  std::vector<int64_t> bytes;
  for (size_t index = 0; index < params.size(); ++index) {
    const Type& type = params[index]->type;
    bool open = type.rank() > 0 && type.shape[0] == Shape::kDynamic;
    if (!open && buffers[index].bytes < type.bytes())
      return failAt(kernel.loc, fmt::format("kernel @{}: %{} needs {} bytes, {} are given", kernel.name,
                                            params[index]->name, type.bytes(), buffers[index].bytes));
    bytes.push_back(buffers[index].bytes);
  }
  for (int64_t extent : grid)
    if (extent < 1)
      return failAt(kernel.loc, fmt::format("kernel @{}: a grid extent of {}", kernel.name, extent));
  return Machine(kernel, flatten(kernel, bytes), buffers, grid, options).run();
}

}  // namespace tg
