// SPDX-License-Identifier: Apache-2.0
#include "tools/driver/streams.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "ir/file_io.h"

namespace tg {

std::atomic<bool> endAsked = false;

namespace {

int outputError = 0;  ///< errno of the first failed write to standard output

// Milliseconds between two tests of `endAsked`, and the most that all output waits in sum after it is set.
constexpr int kPollTime = 100, kMostWait = 5000;

/// Waits until a pipe or socket takes PIPE_BUF bytes at once. False, with errno EAGAIN, if it still has no room
/// kMostWait after the tool was asked to end.
bool hasRoom(int file) {
  static int waited = 0;
  pollfd room{file, POLLOUT, 0};
  for (;;) {
    const int ready = ::poll(&room, 1, kPollTime);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // write() then reports the error
    if (endAsked && (waited += kPollTime) > kMostWait) return errno = EAGAIN, false;
  }
}

/// Like writeAll, but a reader that takes nothing does not keep the tool from ending, nor does a terminal that Ctrl-S has
/// stopped. (One that is full does.)
bool writePatiently(int file, std::string_view text) {
  for (; !text.empty(); text.remove_prefix(std::min<size_t>(PIPE_BUF, text.size())))
    if (!hasRoom(file) || !writeAll(file, text.substr(0, PIPE_BUF))) return false;
  return true;
}

// Both write functions report success: if a stream is in its error state, fmt::print throws wherever it is called.
ssize_t writeOutputStream(void*, const char* text, size_t size) {
  if (!outputError && !writePatiently(STDOUT_FILENO, {text, size})) outputError = errno;
  return static_cast<ssize_t>(size);
}
ssize_t writeErrorStream(void*, const char* text, size_t size) {
  (void)writePatiently(STDERR_FILENO, {text, size});
  return static_cast<ssize_t>(size);
}

/// A stream that writes through `write` with the buffering of `stream`; `stream` itself on failure.
FILE* streamOver(FILE* stream, ssize_t (*write)(void*, const char*, size_t), int buffering) {
  cookie_io_functions_t functions{};
  functions.write = write;
  FILE* over = ::fopencookie(nullptr, "w", functions);
  if (!over) return stream;
  std::setvbuf(over, nullptr, buffering, BUFSIZ);
  return over;
}

void openStreams() {
  static bool open = false;
  if (open) return;
  open = true;
  // If one of them were closed, the next file to be opened would get its number, and messages would go to that file.
  for (int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(file, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  // If a reader is gone, or a file may not grow further, the write must fail instead of ending the process.
  for (int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  stdout = streamOver(stdout, writeOutputStream, ::isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
  stderr = streamOver(stderr, writeErrorStream, _IONBF);
}

int failed(const std::string& tool, const char* why) {
  fmt::print(stderr, "{}: error: {}\n", tool, why);
  return 1;
}

int guarded(const std::string& tool, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failed(tool, "out of memory");
  } catch (const std::length_error&) {  // the size of a container exceeds any memory
    return failed(tool, "out of memory");
  } catch (const std::system_error& error) {  // for example, a thread that cannot be started
    return failed(tool, error.what());
  }
}

}  // namespace

std::string lostOutput() {
  std::fflush(stdout);
  if (!outputError) return "";
  return fmt::format("cannot write standard output: {}",
                     outputError == EAGAIN ? "its reader takes nothing" : std::strerror(outputError));
}

int runTool(const std::string& tool, const std::function<int()>& body) {
  openStreams();
  const int code = guarded(tool, body);
  const std::string lost = lostOutput();
  if (lost.empty() || code != 0) return code;
  return outputError == EPIPE ? 1 : failed(tool, lost.c_str());
}

}  // namespace tg
