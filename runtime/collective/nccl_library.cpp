// SPDX-License-Identifier: Apache-2.0
#include "runtime/collective/nccl_library.h"

#include <dlfcn.h>

namespace tg::collective {

namespace {

/// Never closed: neither library can be loaded twice.
Result<void*> openObject(const std::string& name) {
  if (void* object = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return object;
  const std::string why = dlerror();
  if (why.find("No such file") != std::string::npos) return fail("{} is not found", name);
  return fail("{} cannot be loaded: {}", name, why);
}

/// Looks up functions by name and remembers the first that is missing.
class Symbols {
 public:
  Symbols(void* object, const std::string& library) : object_(object), library_(library) {}
  template <class T>
  Symbols& take(T*& function, const char* name) {
    function = reinterpret_cast<T*>(dlsym(object_, name));
    if (!function && missing_.empty()) missing_ = name;
    return *this;
  }
  Result<void> done() const {
    if (missing_.empty()) return {};
    return fail("{} has no {}: it is too old", library_, missing_);
  }

 private:
  void* object_;
  const std::string& library_;
  std::string missing_;
};

}  // namespace

#define TG_TAKE(name) take(name, #name)

Result<std::shared_ptr<NcclLibrary>> NcclLibrary::open(const NcclNames& names) {
  TG_TRY(void* object, openObject(names.cuda));
  auto made = std::make_shared<NcclLibrary>();
  TG_CHECK(made->takeCuda(object, names.cuda));
  return made;
}

Result<void> NcclLibrary::takeCuda(void* object, const std::string& name) {
  return Symbols(object, name)
      .TG_TAKE(cuInit)
      .TG_TAKE(cuGetErrorString)
      .TG_TAKE(cuDeviceGetCount)
      .TG_TAKE(cuDeviceGet)
      .take(cuDeviceGetUuid, "cuDeviceGetUuid_v2")
      .TG_TAKE(cuDevicePrimaryCtxRetain)
      .take(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2")
      .TG_TAKE(cuCtxSetCurrent)
      .TG_TAKE(cuStreamCreate)
      .TG_TAKE(cuStreamSynchronize)
      .take(cuStreamDestroy, "cuStreamDestroy_v2")
      .TG_TAKE(cuImportExternalMemory)
      .TG_TAKE(cuExternalMemoryGetMappedBuffer)
      .take(cuMemFree, "cuMemFree_v2")
      .TG_TAKE(cuDestroyExternalMemory)
      .TG_TAKE(cuImportExternalSemaphore)
      .TG_TAKE(cuDestroyExternalSemaphore)
      .TG_TAKE(cuSignalExternalSemaphoresAsync)
      .TG_TAKE(cuWaitExternalSemaphoresAsync)
      .done();
}

Result<void> NcclLibrary::openNccl(const NcclNames& names) {
  TG_TRY(void* object, openObject(names.nccl));
  return Symbols(object, names.nccl)
      .TG_TAKE(ncclGetErrorString)
      .TG_TAKE(ncclGetUniqueId)
      .TG_TAKE(ncclCommInitRank)
      .TG_TAKE(ncclCommDestroy)
      .TG_TAKE(ncclCommAbort)
      .TG_TAKE(ncclCommGetAsyncError)
      .TG_TAKE(ncclGroupStart)
      .TG_TAKE(ncclGroupEnd)
      .TG_TAKE(ncclAllReduce)
      .TG_TAKE(ncclReduceScatter)
      .TG_TAKE(ncclAllGather)
      .done();
}

#undef TG_TAKE

Result<void> NcclLibrary::cuda(int code, const char* doing) const {
  if (code == 0) return {};
  const char* text = nullptr;
  cuGetErrorString(code, &text);
  return fail("CUDA failed {}: {} ({})", doing, text ? text : "an unknown error", code);
}

Result<void> NcclLibrary::nccl(int code, const char* doing) const {
  if (code == 0) return {};
  return fail("NCCL failed {}: {} (NCCL_DEBUG=WARN tells more)", doing, ncclGetErrorString(code));
}

}  // namespace tg::collective
