// SPDX-License-Identifier: Apache-2.0
#include "ir/kernel/absent.h"

namespace tg {

/// Of a word as the table has it.
static std::string_view wayOf(std::string_view word) {
  struct Row {
    std::string_view words, way;
  };
  static constexpr Row kRows[] = {
      {" return exit discard ", "end early by `tgk.return_if %i >= N` or wrap the rest in tgk.if"},
      {" break continue ",
       "let the condition of a tgk.while end the loop, or wrap what is left of the body in tgk.if"},
      {" loop do until ", "loop with tgk.for, or with tgk.while (…) max(N)"},
      {" switch case ", "chain tgk.if"},
      {" printf print assert trap abort device_print device_assert ",
       "kernels print nothing; store to a buffer that the host reads, and run on the interpreter, which "
       "reports bad accesses"},
      {" sincos ", "take tgk.sin and tgk.cos"},
      {" constant const let var ", "a literal stands in the place of a value; name it by `const TILE = 16`, "
                                   "an expression by `%v = … : f32`"},
      {" assign set mov alloca variable ",
       "values are assigned once: carry them by iter_args, or keep them in a tgk.local"},
      {" syncthreads sync workgroup_barrier group_barrier memory_barrier fence threadfence debug_fence "
       "debug_barrier syncwarp ",
       "take tgk.barrier"},
      {" thread_id threadIdx invocation_id local_invocation_id LocalInvocationID ", "take tgk.local_id"},
      {" GlobalInvocationID global_invocation_id ", "take tgk.global_id"},
      {" block_id blockIdx program_id group_id WorkGroupID ", "take tgk.workgroup_id"},
      {" block_dim blockDim local_size workgroup_size WorkGroupSize ",
       "write workgroup_size(0), a literal, in the place of an operand"},
      {" grid_dim gridDim num_programs NumWorkGroups ", "take tgk.num_workgroups"},
      {" size shape len extent ", "take tgk.dim, or name the axis: buf<Nxf32, in> makes N a value"},
      {" lerp mix interpolate ", "write %a + %t * (%b - %a)"},
      {" smoothstep ", "write %t * %t * (3.0 - 2.0 * %t) with %t = clamp((%x - %a) / (%b - %a), 0.0, 1.0)"},
      {" step where cond ", "take tgk.select"},
      {" length ", "write sqrt(dot(%v, %v)); the extent of an axis is tgk.dim"},
      {" vec3 float3 int3 uint3 ", "take three values, an axis of extent 3, or a vec4"},
      {" pow2 square ", "write %x * %x"},
      {" log10 ", "write log(%x) * 0.4342944819"},
      {" exp10 ", "write exp(%x * 2.302585093)"},
      {" sigmoid ", "write 1.0 / (1.0 + exp(-%x))"},
      {" relu ", "write max(%x, 0.0)"},
      {" gelu silu softmax softplus ", "write it in a func of scalars and call that by tgk.call"},
      {" inversesqrt invsqrt ", "take tgk.rsqrt"},
      {" fabs ", "take tgk.abs"},
      {" fmin fminf minimum ", "take tgk.min"},
      {" fmax fmaxf maximum ", "take tgk.max"},
      {" rem fmod fmodf remainder modulo ",
       "take tgk.mod on integers; of floats write %x - %y * floor(%x / %y)"},
      {" arange ", "take tgk.global_id: a kernel computes one element for each invocation"},
      {" convert to ext zext sext itof ftoi float int uint ",
       "take tgk.cast, in an expression f32(…), i32(…) or u32(…)"},
      {" float_as_int float_as_uint int_as_float uint_as_float floatBitsToInt floatBitsToUint intBitsToFloat "
       "uintBitsToFloat ",
       "take tgk.bitcast"},
      {" lshr ashr sar ", "take tgk.shr; i32 keeps its sign"},
      {" cmp icmp fcmp compare ", "take tgk.lt, le, gt, ge, eq or ne, or write %a < %b"},
      {" atomic_sub ", "add the negative: tgk.atomic_add -%v, %b[%i]"},
      {" atomic_inc ", "write tgk.atomic_add 1, %b[%i]"},
      {" atomic_cas atomicCAS atomicCompSwap ", "take tgk.atomic_compare_exchange"},
      {" atomic_exch atomic_swap ", "take tgk.atomic_exchange"},
      {" popc bitcount ", "take tgk.popcount"},
      {" brev ", "take tgk.reverse_bits"},
      {" ffs ", "take tgk.ctz, which is 32 of 0"},
      {" shfl shuffle broadcast subgroupShuffle subgroupBroadcast ", "take tgk.subgroup_shuffle"},
      {" ballot vote any all subgroupBallot subgroupAny subgroupAll ", "take tgk.subgroup_ballot"},
      {" warp_reduce reduce sum subgroupAdd subgroupMax subgroupMin ",
       "take tgk.workgroup_reduce or tgk.subgroup_reduce"},
      {" lane_id laneid ", "take tgk.subgroup_lane"},
      {" mma wmma matmul tl.dot ", "take the tgk.coopmat ops, or tg.matmul in the model"},
      {" length2 norm distance normalize cross ", "write it from dot(%a, %b) and sqrt"},
      {" alloc malloc shared shared_memory ", "take tgk.shared or tgk.local"},
      {" async_copy memcpy prefetch copy_async ", "load and store; order between workgroups is two kernels"},
      {" launch dispatch ", "kernels start no kernels; call each by tg.custom in the model"},
  };
  if (word.empty() || word.find(' ') != std::string_view::npos) return "";
  for (const Row& row : kRows)
    for (size_t at = 0; (at = row.words.find(word, at)) != std::string_view::npos; ++at)
      if (row.words[at - 1] == ' ' && row.words[at + word.size()] == ' ') return row.way;
  return "";
}

std::string_view insteadOf(std::string_view name) {
  if (std::string_view way = wayOf(name); !way.empty()) return way;
  // What languages put around a word: threadIdx.x, tl.arange, gl_WorkGroupID, __shfl_sync, __shared__.
  for (std::string_view axis : {".x", ".y", ".z"})
    if (name.ends_with(axis)) name.remove_suffix(axis.size());
  name = name.substr(name.find('.') + 1);
  while (name.starts_with('_')) name.remove_prefix(1);
  while (name.ends_with('_')) name.remove_suffix(1);
  if (name.starts_with("gl_")) name.remove_prefix(3);
  if (name.ends_with("_sync")) name.remove_suffix(5);
  return wayOf(name);
}

}  // namespace tg
