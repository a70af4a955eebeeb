// SPDX-License-Identifier: Apache-2.0
// The only translation unit that defines volk's function pointers. They are hidden, so that a program that links to the
// Vulkan loader itself keeps its own symbols of the same names.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(hidden)
#define VOLK_IMPLEMENTATION
#include <volk.h>
#pragma GCC visibility pop
