// SPDX-License-Identifier: Apache-2.0
// Runs the functions of a module before and after each pass, and compares what they compute.
#pragma once

#include "passes/pass.h"

namespace tg {

/// Implements --exec-each. The hooks call each function in the interpreter, before the first pass and after every pass,
/// from one set of random parameters, states and inputs, and judge what the calls leave (runtime/check/oracle.h): results,
/// captures, gradients of parameters, and the params and states that the function updates. Of what a pass adds or removes,
/// nothing is compared. What is not compared otherwise, such as a function that computes too much for the interpreter, is
/// noted on standard error. The hooks are for one run of one pipeline.
Instrumentation execEach();

}  // namespace tg
