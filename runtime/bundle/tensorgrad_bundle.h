/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Runs a model that `tg-run export` wrote: a directory of kernels, weights and a manifest.
 *
 * Needs only tensorgrad_bundle.cpp (C++17), a Vulkan header, and libvulkan.so.1 at run time:
 *
 *     c++ -std=c++17 my_program.cpp tensorgrad_bundle.cpp -ldl
 *
 * Elements are as on this machine: f32 a float, i32 an int32_t, u32 a uint32_t, i1 an int32_t of 0 or 1, f16
 * and bf16 two bytes. Arrays are dense and row-major. A bundle is used by one thread at a time. */
#ifndef TENSORGRAD_BUNDLE_H
#define TENSORGRAD_BUNDLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tgb_bundle tgb_bundle;

enum { TGB_MAX_RANK = 16 };

typedef struct tgb_tensor {
  const char* name;
  const char* dtype; /* "f32", "f16", "bf16", "i32", "u32", "i1" */
  int rank;
  int64_t shape[TGB_MAX_RANK];
  uint64_t bytes;
} tgb_tensor;

typedef struct tgb_input {
  const void* data;
  uint64_t bytes;
} tgb_input;

typedef struct tgb_output {
  void* data;
  uint64_t bytes;
} tgb_output;

/* Reads and verifies the directory, then prepares everything on a device: NULL or "auto" (discrete before
 * integrated, virtual and cpu), "cpu", an index, or a part of its name. NULL on an error; see tgb_open_error.
 */
tgb_bundle* tgb_open(const char* directory, const char* device);
/* Why the last tgb_open of this thread gave NULL. */
const char* tgb_open_error(void);
void tgb_close(tgb_bundle* bundle);

/* The inputs and results, in the order tgb_run takes them. NULL beyond the last. */
const tgb_tensor* tgb_input_at(const tgb_bundle* bundle, int index);
const tgb_tensor* tgb_result_at(const tgb_bundle* bundle, int index);
int tgb_input_count(const tgb_bundle* bundle);
int tgb_result_count(const tgb_bundle* bundle);
/* The name of the device in use. */
const char* tgb_device(const tgb_bundle* bundle);

/* One call: writes the inputs, runs the kernels, waits, reads the results. 0, or -1 on an error, which
 * tgb_error tells; an error in the arguments leaves everything as it was. */
int tgb_run(tgb_bundle* bundle, const tgb_input* inputs, int input_count, const tgb_output* results,
            int result_count);
/* Why the last tgb_run failed; "" when it did not. */
const char* tgb_error(const tgb_bundle* bundle);

#ifdef __cplusplus
}
#endif

#endif
