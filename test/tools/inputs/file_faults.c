// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD: numbers the file operations of a process below FAULT_ROOT, and lets one of them fail.
//   FAULT_ROOT  a folder; only paths with this prefix count
//   FAULT       N:enospc, N:eio, N:short (half of a write, then no space) or N:kill, for the N-th operation
//   FAULT_GATE  a file: an fsync waits until it is there
//   FAULT_LOG   a file that gets a line `N operation path` for each
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int count;
static atomic_int full;  // from a fault on, the disk stays full

static void note(int number, const char* operation, const char* path) {
  const char* log = getenv("FAULT_LOG");
  if (!log) return;
  char line[4400];
  int length = snprintf(line, sizeof line, "%d %s %s\n", number, operation, path);
  int file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0) return;
  (void)!syscall(SYS_write, file, line, (size_t)length);
  syscall(SYS_close, file);
}

// The error that the operation ends with: 0 is none, -1 half a write.
static int fault(const char* operation, const char* path) {
  const char *root = getenv("FAULT_ROOT"), *which = getenv("FAULT");
  if (!root || !path || strncmp(path, root, strlen(root)) != 0) return 0;
  int number = atomic_fetch_add(&count, 1) + 1;
  note(number, operation, path);
  const char* gate = getenv("FAULT_GATE");
  while (gate && !strcmp(operation, "fsync") && access(gate, F_OK) != 0) {
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
  }
  const int removes = !strncmp(operation, "unlink", 6) || !strcmp(operation, "rmdir");
  if (atomic_load(&full) && !removes) return ENOSPC;
  if (!which || atoi(which) != number) return 0;
  const char* kind = strchr(which, ':');
  if (!kind) return 0;
  if (!strcmp(kind, ":kill")) kill(getpid(), SIGKILL);
  if (!strcmp(kind, ":eio")) return EIO;
  if (removes) return 0;
  atomic_store(&full, 1);
  return !strcmp(kind, ":short") && !strcmp(operation, "write") ? -1 : ENOSPC;
}

static const char* pathOf(int file, char* into, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, into, size - 1);
  into[length < 0 ? 0 : length] = 0;
  return into;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define GUARD(operation, path)               \
  do {                                       \
    int error = fault(operation, path);      \
    if (error > 0) return errno = error, -1; \
  } while (0)

static int opened(const char* path, int flags, mode_t mode) {
  if (flags & (O_WRONLY | O_RDWR | O_CREAT)) GUARD("open", path);
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags | O_LARGEFILE, mode);
}
ssize_t write(int file, const void* bytes, size_t size) {
  char path[4096];
  int error = fault("write", pathOf(file, path, sizeof path));
  if (error > 0) return errno = error, -1;
  return (ssize_t)syscall(SYS_write, file, bytes, error < 0 && size > 1 ? size / 2 : size);
}
int fsync(int file) {
  char path[4096];
  GUARD("fsync", pathOf(file, path, sizeof path));
  return (int)syscall(SYS_fsync, file);
}
int ftruncate(int file, off_t size) {
  char path[4096];
  GUARD("ftruncate", pathOf(file, path, sizeof path));
  return (int)syscall(SYS_ftruncate, file, size);
}
int rename(const char* from, const char* to) {
  GUARD("rename", to);
  return NEXT(rename)(from, to);
}
int renameat2(int fromFolder, const char* from, int toFolder, const char* to, unsigned flags) {
  GUARD("rename", to);
  return NEXT(renameat2)(fromFolder, from, toFolder, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  GUARD("mkdir", path);
  return NEXT(mkdir)(path, mode);
}
int unlink(const char* path) {
  GUARD("unlink", path);
  return NEXT(unlink)(path);
}
int unlinkat(int folder, const char* path, int flags) {
  GUARD("unlink", path);
  return NEXT(unlinkat)(folder, path, flags);
}
