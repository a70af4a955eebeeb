// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages between ranks, as a plain C interface, so that a plug-in library shares no code with the
// program that loads it. All functions are called by one thread, the one that called tgTransport.
#pragma once

#include <cstdint>

extern "C" {

/// Incremented with each change to this struct. A program refuses transports of other versions.
enum { kTgTransportVersion = 1 };

struct TgTransport {
  int version;      ///< stays the first member in all versions
  const char* name; /* `mpi` */
  void* self;       ///< the first argument of all functions
  int rank, ranks;
  const char* host;  ///< name

  /// Start a nonblocking send or receive; the buffer must stay valid until `done`. Messages of one pair of ranks with
  /// one tag arrive in order. Returns a request's number, or -1.
  int64_t (*send)(void* self, int to, int tag, const void* bytes, int64_t count);
  int64_t (*receive)(void* self, int from, int tag, void* bytes, int64_t count);
  /// 1: the request is complete and its number is released; 0: not yet; -1: it failed.
  int (*done)(void* self, int64_t request);
  /// The reason why the last call failed.
  const char* (*error)(void* self);
  /// Leaves the job; returns when all other ranks have called it.
  void (*close)(void* self);
  /// Ends all processes of the job.
  void (*abort)(void* self, int code);
};

/// The entry of a plug-in: joins the job. Null on failure, with the reason in `why`.
typedef TgTransport* TgTransportEntry(char* why, int64_t whySize);
}
