// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective/nccl_engine.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <utility>

#include <fmt/format.h>

#include "ir/stopwatch.h"
#include "ir/text.h"
#include "ir/wake.h"

namespace tg::collective {

namespace {

/// The interval for polling observers, and for checking NCCL and the other engine for errors.
constexpr auto kPoll = std::chrono::microseconds(20);
constexpr auto kAsk = std::chrono::milliseconds(100);
/// NCCL detects a lost rank earlier than the launcher or the other engine, but only these know its number, so wait this
/// long for them.
constexpr auto kUntilNamed = std::chrono::seconds(5);
constexpr int kNcclInProgress = 7;

std::string uuidText(const CudaUuid& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  return text;
}

}  // namespace

Result<std::shared_ptr<CudaGpu>> CudaGpu::open(std::shared_ptr<const NcclLibrary> library,
                                               const std::string& uuid) {
  const NcclLibrary& cuda = *library;
  std::shared_ptr<CudaGpu> gpu(new CudaGpu);
  gpu->library_ = library;
  TG_CHECK(cuda.cuda(cuda.cuInit(0), "to start"));
  int count = 0;
  TG_CHECK(cuda.cuda(cuda.cuDeviceGetCount(&count), "to count its devices"));
  int device = -1;
  for (int i = 0; i < count && device < 0; ++i) {
    int number = 0;
    CudaUuid its{};
    TG_CHECK(cuda.cuda(cuda.cuDeviceGet(&number, i), "to give a device"));
    TG_CHECK(cuda.cuda(cuda.cuDeviceGetUuid(&its, number), "to tell a device's UUID"));
    if (uuidText(its) == uuid) device = number;
  }
  if (device < 0) return fail("none of the {} devices of CUDA has the UUID {}", count, uuid);
  TG_CHECK(cuda.cuda(cuda.cuDevicePrimaryCtxRetain(&gpu->context_, device), "to open the device"));
  gpu->device_ = device;
  TG_CHECK(gpu->enter());
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  TG_CHECK(cuda.cuda(cuda.cuStreamCreate(&gpu->stream_, kNonBlocking), "to make a stream"));
  return gpu;
}

CudaGpu::~CudaGpu() {
  if (device_ < 0 || !enter()) return;
  if (stream_) library_->cuStreamDestroy(stream_);
  library_->cuDevicePrimaryCtxRelease(device_);
}

Result<void> CudaGpu::enter() const {
  return library_->cuda(library_->cuCtxSetCurrent(context_), "to enter the device's context");
}

Result<void> CudaGpu::finish() const {
  return library_->cuda(library_->cuStreamSynchronize(stream_), "to finish its work");
}

// A successful import closes the descriptor; after a failed one it is still open.
Result<std::shared_ptr<CudaMemory>> CudaMemory::create(std::shared_ptr<CudaGpu> gpu, int descriptor,
                                                       int64_t bytes) {
  std::shared_ptr<CudaMemory> memory(new CudaMemory);
  memory->gpu_ = std::move(gpu);
  const NcclLibrary& cuda = memory->gpu_->library();
  TG_CHECK(memory->gpu_->enter());
  CudaMemoryHandle handle;
  handle.fd = descriptor;
  handle.size = static_cast<unsigned long long>(bytes);
  auto taken =
      cuda.cuda(cuda.cuImportExternalMemory(&memory->memory_, &handle), "to import memory of Vulkan");
  if (!taken) {
    close(descriptor);
    return taken.takeError();
  }
  CudaMemoryRange all;
  all.size = handle.size;
  TG_CHECK(cuda.cuda(cuda.cuExternalMemoryGetMappedBuffer(&memory->address_, memory->memory_, &all),
                     "to map memory of Vulkan"));
  return memory;
}

CudaMemory::~CudaMemory() {
  if (!memory_ || !gpu_->enter()) return;
  (void)gpu_->finish();
  if (address_) gpu_->library().cuMemFree(address_);
  gpu_->library().cuDestroyExternalMemory(memory_);
}

Result<std::shared_ptr<CudaTimeline>> CudaTimeline::create(std::shared_ptr<CudaGpu> gpu, int descriptor) {
  std::shared_ptr<CudaTimeline> timeline(new CudaTimeline);
  timeline->gpu_ = std::move(gpu);
  const NcclLibrary& cuda = timeline->gpu_->library();
  TG_CHECK(timeline->gpu_->enter());
  CudaSemaphoreHandle handle;
  handle.fd = descriptor;
  auto taken = cuda.cuda(cuda.cuImportExternalSemaphore(&timeline->semaphore_, &handle),
                         "to import a semaphore of Vulkan");
  if (taken) return timeline;
  close(descriptor);
  return taken.takeError();
}

CudaTimeline::~CudaTimeline() {
  if (!semaphore_ || !gpu_->enter()) return;
  (void)gpu_->finish();
  gpu_->library().cuDestroyExternalSemaphore(semaphore_);
}

Result<void> CudaTimeline::enqueue(NcclLibrary::SemaphoreCall work, uint64_t value, const char* doing) const {
  TG_CHECK(gpu_->enter());
  CudaSemaphoreValue at;
  at.value = value;
  return gpu_->library().cuda(work(&semaphore_, &at, 1, gpu_->stream()), doing);
}

Result<void> CudaTimeline::await(uint64_t value) const {
  return enqueue(gpu_->library().cuWaitExternalSemaphoresAsync, value, "to wait for Vulkan");
}

Result<void> CudaTimeline::signal(uint64_t value) const {
  return enqueue(gpu_->library().cuSignalExternalSemaphoresAsync, value, "to signal Vulkan");
}

Result<std::string> NcclEngine::makeId(const NcclLibrary& library) {
  NcclId id;
  TG_CHECK(library.nccl(library.ncclGetUniqueId(&id), "to make a communicator id"));
  return std::string(id.bytes, sizeof id.bytes);
}

Result<std::shared_ptr<NcclEngine>> NcclEngine::join(std::shared_ptr<Engine> host,
                                                     std::shared_ptr<CudaGpu> gpu, const std::string& id,
                                                     bool oneHost) {
  std::shared_ptr<NcclEngine> engine(new NcclEngine(std::move(host), std::move(gpu)));
  engine->oneHost_ = oneHost;
  TG_CHECK(engine->start(id));
  engine->thread_ = std::thread([raw = engine.get()] { raw->watch(); });
  return engine;
}

// ncclCommInitRank returns when all ranks have called it. If the host's engine loses a rank before, the calling thread
// is abandoned until the process ends.
Result<void> NcclEngine::start(const std::string& id) {
  NcclId known;
  std::memcpy(known.bytes, id.data(), std::min(id.size(), sizeof known.bytes));
  auto promise = std::make_shared<std::promise<Result<CudaHandle>>>();
  std::future<Result<CudaHandle>> made = promise->get_future();
  std::thread caller([promise, known, gpu = gpu_, ranks = ranks(), rank = rank()] {
    auto call = [&]() -> Result<CudaHandle> {
      TG_CHECK(gpu->enter());
      CudaHandle communicator = nullptr;
      TG_CHECK(gpu->library().nccl(gpu->library().ncclCommInitRank(&communicator, ranks, known, rank),
                                   "to initialize the communicator"));
      return communicator;
    };
    promise->set_value(call());
  });
  while (made.wait_for(kAsk) == std::future_status::timeout) {
    if (!host_->failed()) continue;
    caller.detach();
    return failure();
  }
  caller.join();
  TG_TRY(communicator_, made.get());
  return {};
}

NcclEngine::~NcclEngine() {
  changeAndWake(mutex_, changed_, [&] { closing_ = true; });
  if (thread_.joinable()) thread_.join();
  observers_.clear();
  if (!communicator_ || !gpu_->enter()) return;
  // A barrier: no rank reads another's memory after it.
  if (host_->allGather(""))
    gpu_->library().ncclCommDestroy(communicator_);
  else
    gpu_->library().ncclCommAbort(communicator_);
}

std::string NcclEngine::describe() const { return fmt::format("{} by nccl", countText(ranks(), "rank")); }

Traffic NcclEngine::traffic() const {
  std::lock_guard lock(mutex_);
  return traffic_;
}

Result<void> NcclEngine::run(std::span<const Collective> group) {
  CudaHandle communicator = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return failure_;
    communicator = communicator_;
  }
  TG_CHECK(gpu_->enter());
  const NcclLibrary& library = gpu_->library();
  int code = library.ncclGroupStart();
  int64_t bytes = 0;
  for (const Collective& each : group) {
    const void* send = reinterpret_cast<const void*>(each.send);
    void* receive = reinterpret_cast<void*>(each.receive);
    const int op = each.reduction == Reduction::mean ? kNcclAvg : kNcclSum;
    const auto count = static_cast<size_t>(each.count);
    CudaHandle stream = gpu_->stream();
    if (code == 0 && each.kind == Kind::allReduce)
      code = library.ncclAllReduce(send, receive, count, kNcclFloat32, op, communicator, stream);
    else if (code == 0 && each.kind == Kind::reduceScatter)
      code = library.ncclReduceScatter(send, receive, count, kNcclFloat32, op, communicator, stream);
    else if (code == 0)
      code = library.ncclAllGather(send, receive, count, kNcclFloat32, communicator, stream);
    const int64_t shards = each.kind == Kind::allReduce ? 1 : ranks();
    bytes += sentBytes(each.kind, each.count * shards * static_cast<int64_t>(sizeof(float)), ranks());
  }
  const int ended = library.ncclGroupEnd();
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return failure_;
  traffic_.bytes += bytes;
  return library.nccl(code ? code : ended, "in a collective");
}

void NcclEngine::observe(Observer observer) {
  changeAndWake(mutex_, changed_, [&] { observers_.push_back(std::move(observer)); });
}

void NcclEngine::onFailure(const void* owner, std::function<void(const Error&)> handler) {
  std::lock_guard lock(mutex_);
  if (!handler)
    handlers_.erase(owner);
  else if (failure_.empty())
    handlers_[owner] = std::move(handler);
  else
    handler(failure_);
}

/// The engine's thread: polls observers, and aborts everything after a failure.
void NcclEngine::watch() {
  constexpr unsigned long kNanoseconds = 1000;
  prctl(PR_SET_TIMERSLACK, kNanoseconds, 0, 0, 0);
  if (!gpu_->enter()) return;
  std::list<Observer> observers;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (observers.empty() && observers_.empty() && !closing_) changed_.wait_for(lock, kAsk);
      if (closing_) return;
      observers.splice(observers.end(), observers_);
    }
    if (!observers.empty()) std::this_thread::sleep_for(kPoll);
    poll(observers);
    if (const Clock::time_point now = Clock::now(); now - asked_ >= kAsk) {
      asked_ = now;
      if (const Error why = failure(); !why.empty()) return abortAll(why);
    }
  }
}

/// Polls the observers in order, as runs complete in order.
void NcclEngine::poll(std::list<Observer>& observers) {
  while (!observers.empty()) {
    const std::optional<Interval> done = observers.front()(before_);
    if (!done) return;
    observers.pop_front();
    before_ = done->end;
    std::lock_guard lock(mutex_);
    traffic_.inFlight += std::max(0.0, inSeconds(done->end - done->begin));
  }
}

Error NcclEngine::failure() {
  if (host_->failed()) {
    auto failed = host_->begin({});
    return failed ? fail("the connection to the other ranks is lost") : failed.takeError();
  }
  int code = 0;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) return failure_;
    if (communicator_) gpu_->library().ncclCommGetAsyncError(communicator_, &code);
  }
  if (code == 0 || code == kNcclInProgress) return {};
  const Clock::time_point now = Clock::now();
  if (suspect_ == Clock::time_point()) suspect_ = now;
  if (now - suspect_ < kUntilNamed) return {};
  return gpu_->library().nccl(code, "in a collective").takeError();
}

/// Calls the handlers first, since they set the error that waiting threads return when the abort wakes them.
void NcclEngine::abortAll(const Error& why) {
  CudaHandle communicator = nullptr;
  {
    std::lock_guard lock(mutex_);
    failure_ = why;
    for (const auto& [owner, handler] : handlers_) handler(why);
    communicator = std::exchange(communicator_, nullptr);
  }
  if (communicator && gpu_->enter()) gpu_->library().ncclCommAbort(communicator);
}

}  // namespace tg::collective
