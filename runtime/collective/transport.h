// SPDX-License-Identifier: Apache-2.0
// How bytes go from rank to rank, as plain C, so that a plug-in library shares no code with the program that loads
// it. All functions are called by one thread, the one that called tgTransport.
#pragma once

#include <cstdint>

extern "C" {

/// Counts the changes to this struct: a program takes transports of its own version alone.
enum { kTgTransportVersion = 1 };

struct TgTransport {
  int version;      ///< may be read before it is known to be kTgTransportVersion
  const char* name; /* `mpi` */
  void* self;       ///< the first argument of all functions
  int rank, ranks;
  const char* host;  ///< the machine's name

  /// Begin to move bytes, which stay where they are until `done`; messages of one pair of ranks and one tag arrive
  /// in order. A request's number, or -1.
  int64_t (*send)(void* self, int to, int tag, const void* bytes, int64_t count);
  int64_t (*receive)(void* self, int from, int tag, void* bytes, int64_t count);
  /// 1: the request is done and its number free; 0: not yet; -1: it failed.
  int (*done)(void* self, int64_t request);
  /// Why the last call failed.
  const char* (*error)(void* self);
  /// Ends this rank's part once all others do the same.
  void (*close)(void* self);
  /// Ends all processes of the job.
  void (*abort)(void* self, int code);
};

/// The entry of a plug-in: joins the job. Null, with a reason in `why`, where that fails.
typedef TgTransport* TgTransportEntry(char* why, int64_t whySize);
}
