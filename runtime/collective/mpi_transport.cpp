// SPDX-License-Identifier: Apache-2.0
// The transport over MPI, as a plug-in library. Only this file includes mpi.h. Of this project it includes only the
// transport's interface.
#include <mpi.h>

#include <climits>
#include <cstdio>
#include <vector>

#include "runtime/collective/transport.h"

namespace {

class MpiTransport {
 public:
  /// Initialises MPI. Returns MPI_SUCCESS or the error code.
  int open() {
    int provided = 0;
    if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided)) return code;
    if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &world_)) return code;
    MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
    int length = 0;
    MPI_Get_processor_name(host_, &length);
    table_ = {kTgTransportVersion, "mpi", this, 0, 0, host_, send, receive, done, error, close, abort};
    MPI_Comm_rank(world_, &table_.rank);
    MPI_Comm_size(world_, &table_.ranks);
    return MPI_SUCCESS;
  }
  TgTransport* table() { return &table_; }

 private:
  static MpiTransport& of(void* self) { return *static_cast<MpiTransport*>(self); }

  /// The index of a request, or -1.
  int64_t started(int code, MPI_Request request) {
    if (!good(code)) return -1;
    if (free_.empty()) {
      requests_.push_back(request);
      return static_cast<int64_t>(requests_.size()) - 1;
    }
    const int64_t place = free_.back();
    free_.pop_back();
    requests_[static_cast<size_t>(place)] = request;
    return place;
  }
  bool good(int code) {
    if (code == MPI_SUCCESS) return true;
    int length = 0;
    MPI_Error_string(code, error_, &length);
    return false;
  }

  static int64_t send(void* self, int to, int tag, const void* bytes, int64_t count) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = count > INT_MAX ? MPI_ERR_COUNT
                                     : MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, tag,
                                                 of(self).world_, &request);
    return of(self).started(code, request);
  }
  static int64_t receive(void* self, int from, int tag, void* bytes, int64_t count) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = count > INT_MAX ? MPI_ERR_COUNT
                                     : MPI_Irecv(bytes, static_cast<int>(count), MPI_BYTE, from, tag,
                                                 of(self).world_, &request);
    return of(self).started(code, request);
  }
  static int done(void* self, int64_t request) {
    MpiTransport& own = of(self);
    int flag = 0;
    if (!own.good(MPI_Test(&own.requests_[static_cast<size_t>(request)], &flag, MPI_STATUS_IGNORE)))
      return -1;
    if (flag) own.free_.push_back(request);
    return flag;
  }
  static const char* error(void* self) { return of(self).error_; }
  static void close(void*) { MPI_Finalize(); }
  static void abort(void* self, int code) { MPI_Abort(of(self).world_, code); }

  MPI_Comm world_ = MPI_COMM_NULL;
  TgTransport table_{};
  std::vector<MPI_Request> requests_;
  std::vector<int64_t> free_;
  char host_[MPI_MAX_PROCESSOR_NAME] = "";
  char error_[MPI_MAX_ERROR_STRING] = "";
};

}  // namespace

extern "C" __attribute__((visibility("default"))) TgTransport* tgTransport(char* why, int64_t whySize) {
  static MpiTransport transport;
  if (transport.open() == MPI_SUCCESS) return transport.table();
  std::snprintf(why, static_cast<size_t>(whySize), "MPI cannot be initialized");
  return nullptr;
}
