// SPDX-License-Identifier: Apache-2.0
// The functions of the CUDA driver and of NCCL that are used. Both libraries are loaded at run time; neither they nor
// their headers are needed to build. Layouts and numbers are those of cuda.h 10 to 13 and of nccl.h 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ir/result.h"

namespace tg::collective {

using CudaHandle = void*;      ///< CUcontext, CUstream, CUexternalMemory, CUexternalSemaphore, ncclComm_t
using CudaAddress = uint64_t;  ///< CUdeviceptr
using CudaUuid = std::array<unsigned char, 16>;

/// CUDA_EXTERNAL_MEMORY_HANDLE_DESC
struct CudaMemoryHandle {
  int type = 1;            ///< CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
  alignas(8) int fd = -1;  ///< a union with two pointers
  alignas(8) void* unused = nullptr;
  unsigned long long size = 0;
  unsigned int flags = 1;  ///< CUDA_EXTERNAL_MEMORY_DEDICATED
  unsigned int reserved[16] = {};
};
/// CUDA_EXTERNAL_MEMORY_BUFFER_DESC
struct CudaMemoryRange {
  unsigned long long offset = 0, size = 0;
  unsigned int flags = 0;
  unsigned int reserved[16] = {};
};
/// CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
struct CudaSemaphoreHandle {
  int type = 9;            ///< CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
  alignas(8) int fd = -1;  ///< a union with two pointers
  alignas(8) void* unused = nullptr;
  unsigned int flags = 0;
  unsigned int reserved[16] = {};
};
/// CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, which agree for timeline semaphores
struct CudaSemaphoreValue {
  unsigned long long value = 0;
  unsigned int ofOthers[16] = {};
  unsigned int flags = 0;
  unsigned int reserved[16] = {};
};
static_assert(sizeof(CudaMemoryHandle) == 104 && offsetof(CudaMemoryHandle, size) == 24);
static_assert(sizeof(CudaMemoryRange) == 88 && sizeof(CudaSemaphoreHandle) == 96);
static_assert(offsetof(CudaSemaphoreHandle, flags) == 24);
static_assert(sizeof(CudaSemaphoreValue) == 144 && offsetof(CudaSemaphoreValue, flags) == 72);

/// ncclUniqueId
struct NcclId {
  char bytes[128] = {};
};
enum NcclNumber : int { kNcclSum = 0, kNcclAvg = 4, kNcclFloat32 = 7 };

/// The functions return 0 or an error code.
struct NcclFunctions {
  int (*cuInit)(unsigned int);
  int (*cuGetErrorString)(int, const char**);
  int (*cuDeviceGetCount)(int*);
  int (*cuDeviceGet)(int*, int);
  int (*cuDeviceGetUuid)(CudaUuid*, int);
  int (*cuDevicePrimaryCtxRetain)(CudaHandle*, int);
  int (*cuDevicePrimaryCtxRelease)(int);
  int (*cuCtxSetCurrent)(CudaHandle);
  int (*cuStreamCreate)(CudaHandle*, unsigned int);
  int (*cuStreamSynchronize)(CudaHandle);
  int (*cuStreamDestroy)(CudaHandle);
  int (*cuImportExternalMemory)(CudaHandle*, const CudaMemoryHandle*);
  int (*cuExternalMemoryGetMappedBuffer)(CudaAddress*, CudaHandle, const CudaMemoryRange*);
  int (*cuMemFree)(CudaAddress);
  int (*cuDestroyExternalMemory)(CudaHandle);
  int (*cuImportExternalSemaphore)(CudaHandle*, const CudaSemaphoreHandle*);
  int (*cuDestroyExternalSemaphore)(CudaHandle);
  using SemaphoreCall = int (*)(const CudaHandle*, const CudaSemaphoreValue*, unsigned int, CudaHandle);
  SemaphoreCall cuSignalExternalSemaphoresAsync;
  SemaphoreCall cuWaitExternalSemaphoresAsync;

  const char* (*ncclGetErrorString)(int);
  int (*ncclGetUniqueId)(NcclId*);
  int (*ncclCommInitRank)(CudaHandle*, int, NcclId, int);
  int (*ncclCommDestroy)(CudaHandle);
  int (*ncclCommAbort)(CudaHandle);
  int (*ncclCommGetAsyncError)(CudaHandle, int*);
  int (*ncclGroupStart)();
  int (*ncclGroupEnd)();
  int (*ncclAllReduce)(const void*, void*, size_t, int, int, CudaHandle, CudaHandle);
  int (*ncclReduceScatter)(const void*, void*, size_t, int, int, CudaHandle, CudaHandle);
  int (*ncclAllGather)(const void*, void*, size_t, int, CudaHandle, CudaHandle);
};

/// The names under which the dynamic loader finds the libraries.
struct NcclNames {
  std::string cuda = "libcuda.so.1", nccl = "libnccl.so.2";
};

struct NcclLibrary : NcclFunctions {
  /// Loads CUDA alone.
  static Result<std::shared_ptr<NcclLibrary>> open(const NcclNames& names = {});
  /// Loads NCCL too.
  Result<void> openNccl(const NcclNames& names = {});

  /// An error if the code is not 0. `doing` completes "CUDA failed ...".
  Result<void> cuda(int code, const char* doing) const;
  Result<void> nccl(int code, const char* doing) const;

 private:
  Result<void> takeCuda(void* object, const std::string& name);
};

}  // namespace tg::collective
