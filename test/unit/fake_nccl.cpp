// SPDX-License-Identifier: Apache-2.0
// A fake of libcuda.so.1 and libnccl.so.2 for tests, with one GPU for each rank. A rank is a thread, a stream is a
// thread, memory is a file in memory, and so is a semaphore: its 8 bytes are the value.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/collective/engine.h"
#include "runtime/collective/nccl_library.h"

namespace {

using tg::collective::CudaAddress;
using tg::collective::CudaHandle;
using tg::collective::CudaMemoryHandle;
using tg::collective::CudaMemoryRange;
using tg::collective::CudaSemaphoreHandle;
using tg::collective::CudaSemaphoreValue;
using tg::collective::CudaUuid;
using tg::collective::Kind;
using tg::collective::NcclId;

constexpr int kGpus = 4, kBad = 1;

class Stream {
 public:
  Stream() : thread_([this] { work(); }) {}
  ~Stream() {
    add([this] { ends_ = true; });
    thread_.join();
  }
  void add(std::function<void()> what) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(what));
    changed_.notify_all();
  }
  void finish() {
    std::atomic<bool> done = false;
    add([&] { done = true; });
    while (!done) std::this_thread::yield();
  }

 private:
  void work() {
    while (!ends_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !queue_.empty(); });
      auto next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool ends_ = false;
  std::thread thread_;
};

struct Memory {
  void* bytes = nullptr;
  size_t size = 0;
};

using Counter = std::atomic<uint64_t>;

/// The ranks of one communicator.
struct Job {
  std::mutex mutex;
  std::condition_variable changed;
  int come = 0;
  bool aborted = false;
  std::map<int64_t, std::vector<const float*>> terms;  ///< of each collective, by rank
  std::map<int64_t, int> given, taken;
};

struct Communicator {
  std::shared_ptr<Job> job;
  int ranks = 0, rank = 0;
  int64_t runs = 0;
};

std::mutex& jobsMutex = *new std::mutex;  // outlives threads that are never joined
auto& jobs = *new std::map<std::string, std::shared_ptr<Job>>;
std::atomic<int> asyncError = 0;
std::mutex callsMutex;
std::string calls;
thread_local std::vector<std::function<void()>> grouped;
thread_local Stream* groupedOn = nullptr;

void note(const std::string& call) {
  std::lock_guard lock(callsMutex);
  calls += call + "\n";
}

/// Until all ranks are here, or the job is aborted.
bool meet(Job& job, std::unique_lock<std::mutex>& lock, std::map<int64_t, int>& count, int64_t which,
          int ranks) {
  ++count[which];
  job.changed.notify_all();
  job.changed.wait(lock, [&] { return count[which] >= ranks || job.aborted; });
  return !job.aborted;
}

/// A collective.
struct Load {
  Kind kind;
  const float* from;
  float* to;
  size_t count;
  bool mean;
};

void run(Job& job, int64_t which, const Load& load, size_t rank, size_t ranks) {
  std::unique_lock lock(job.mutex);
  auto& terms = job.terms[which];
  terms.resize(ranks);
  terms[rank] = load.from;
  if (!meet(job, lock, job.given, which, static_cast<int>(ranks))) return;
  const bool gathers = load.kind == Kind::allGather;
  const size_t first = load.kind == Kind::reduceScatter ? rank * load.count : 0;
  std::vector<float> out(gathers ? load.count * ranks : load.count);
  for (size_t other = 0; other < ranks; ++other)
    for (size_t i = 0; i < load.count; ++i) {
      const float term = terms[other][first + i];
      out[gathers ? other * load.count + i : i] += load.mean ? term / static_cast<float>(ranks) : term;
    }
  if (!meet(job, lock, job.taken, which, static_cast<int>(ranks))) return;
  std::memcpy(load.to, out.data(), out.size() * sizeof(float));
}

int add(const Load& load, int type, CudaHandle communicator, CudaHandle stream) {
  if (type != tg::collective::kNcclFloat32) return kBad;
  auto* own = static_cast<Communicator*>(communicator);
  grouped.emplace_back([job = own->job, which = own->runs++, load, rank = static_cast<size_t>(own->rank),
                        ranks = static_cast<size_t>(own->ranks)] { run(*job, which, load, rank, ranks); });
  groupedOn = static_cast<Stream*>(stream);
  return 0;
}

}  // namespace

extern "C" {

/// For the test: the calls so far, and the result of ncclCommGetAsyncError.
const char* fakeCalls() {
  std::lock_guard lock(callsMutex);
  static std::string given;
  given = calls;
  return given.c_str();
}
void fakeAsyncError(int code) { asyncError = code; }

int cuInit(unsigned) { return 0; }
int cuGetErrorString(int, const char** text) {
  *text = "a fake error";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = kGpus;
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index + 100;
  return 0;
}
int cuDeviceGetUuid(CudaUuid* uuid, int device) __asm__("cuDeviceGetUuid_v2");
int cuDeviceGetUuid(CudaUuid* uuid, int device) {
  uuid->fill(static_cast<unsigned char>(device - 100));
  return 0;
}
int cuDevicePrimaryCtxRetain(CudaHandle* context, int device) {
  *context = reinterpret_cast<CudaHandle>(static_cast<intptr_t>(device));
  return 0;
}
int cuDevicePrimaryCtxRelease(int) __asm__("cuDevicePrimaryCtxRelease_v2");
int cuDevicePrimaryCtxRelease(int) { return 0; }
int cuCtxSetCurrent(CudaHandle context) { return context ? 0 : kBad; }
int cuStreamCreate(CudaHandle* stream, unsigned) {
  *stream = new Stream;
  return 0;
}
int cuStreamSynchronize(CudaHandle stream) {
  static_cast<Stream*>(stream)->finish();
  return 0;
}
int cuStreamDestroy(CudaHandle stream) __asm__("cuStreamDestroy_v2");
int cuStreamDestroy(CudaHandle stream) {
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuImportExternalMemory(CudaHandle* memory, const CudaMemoryHandle* handle) {
  if (handle->type != 1 || handle->flags != 1) return kBad;
  void* bytes = mmap(nullptr, handle->size, PROT_READ | PROT_WRITE, MAP_SHARED, handle->fd, 0);
  if (bytes == MAP_FAILED) return kBad;
  close(handle->fd);
  *memory = new Memory{bytes, handle->size};
  return 0;
}
int cuExternalMemoryGetMappedBuffer(CudaAddress* address, CudaHandle memory, const CudaMemoryRange* range) {
  *address = reinterpret_cast<CudaAddress>(static_cast<Memory*>(memory)->bytes) + range->offset;
  return 0;
}
int cuMemFree(CudaAddress) __asm__("cuMemFree_v2");
int cuMemFree(CudaAddress) { return 0; }
int cuDestroyExternalMemory(CudaHandle memory) {
  auto* own = static_cast<Memory*>(memory);
  munmap(own->bytes, own->size);
  delete own;
  return 0;
}
int cuImportExternalSemaphore(CudaHandle* semaphore, const CudaSemaphoreHandle* handle) {
  if (handle->type != 9) return kBad;
  void* bytes = mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, handle->fd, 0);
  if (bytes == MAP_FAILED) return kBad;
  close(handle->fd);
  *semaphore = bytes;
  return 0;
}
int cuDestroyExternalSemaphore(CudaHandle semaphore) { return munmap(semaphore, sizeof(Counter)); }
int cuSignalExternalSemaphoresAsync(const CudaHandle* semaphores, const CudaSemaphoreValue* values,
                                    unsigned count, CudaHandle stream) {
  for (unsigned i = 0; i < count; ++i)
    static_cast<Stream*>(stream)->add(
        [counter = static_cast<Counter*>(semaphores[i]), value = values[i].value] { *counter = value; });
  return 0;
}
int cuWaitExternalSemaphoresAsync(const CudaHandle* semaphores, const CudaSemaphoreValue* values,
                                  unsigned count, CudaHandle stream) {
  for (unsigned i = 0; i < count; ++i)
    static_cast<Stream*>(stream)->add(
        [counter = static_cast<Counter*>(semaphores[i]), value = values[i].value] {
          while (*counter < value) std::this_thread::yield();
        });
  return 0;
}

const char* ncclGetErrorString(int code) { return code == 6 ? "a rank is gone" : "a fake error of NCCL"; }
int ncclGetUniqueId(NcclId* id) {
  static std::atomic<int> last = 0;
  *id = NcclId();
  id->bytes[0] = 'x';
  id->bytes[127] = static_cast<char>(++last);
  return 0;
}
int ncclCommInitRank(CudaHandle* made, int ranks, NcclId id, int rank) {
  std::unique_lock all(jobsMutex);
  auto& job = jobs[std::string(id.bytes, sizeof id.bytes)];
  if (!job) job = std::make_shared<Job>();
  auto own = new Communicator{job, ranks, rank, 0};
  all.unlock();
  std::unique_lock lock(own->job->mutex);
  ++own->job->come;
  own->job->changed.notify_all();
  own->job->changed.wait(lock, [&] { return own->job->come >= ranks; });
  *made = own;
  return 0;
}
int ncclCommDestroy(CudaHandle communicator) {
  note("destroy");
  delete static_cast<Communicator*>(communicator);
  return 0;
}
int ncclCommAbort(CudaHandle communicator) {
  note("abort");
  auto* own = static_cast<Communicator*>(communicator);
  std::unique_lock lock(own->job->mutex);
  own->job->aborted = true;
  own->job->changed.notify_all();
  lock.unlock();
  delete own;
  return 0;
}
int ncclCommGetAsyncError(CudaHandle, int* code) {
  *code = asyncError;
  return 0;
}
int ncclGroupStart() { return 0; }
int ncclGroupEnd() {
  if (groupedOn)
    groupedOn->add([all = std::move(grouped)] {
      for (const auto& each : all) each();
    });
  grouped.clear();
  groupedOn = nullptr;
  return 0;
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, CudaHandle communicator,
                  CudaHandle stream) {
  return add({Kind::allReduce, static_cast<const float*>(from), static_cast<float*>(to), count,
              op == tg::collective::kNcclAvg},
             type, communicator, stream);
}
int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op, CudaHandle communicator,
                      CudaHandle stream) {
  return add({Kind::reduceScatter, static_cast<const float*>(from), static_cast<float*>(to), count,
              op == tg::collective::kNcclAvg},
             type, communicator, stream);
}
int ncclAllGather(const void* from, void* to, size_t count, int type, CudaHandle communicator,
                  CudaHandle stream) {
  return add({Kind::allGather, static_cast<const float*>(from), static_cast<float*>(to), count, false}, type,
             communicator, stream);
}
}
