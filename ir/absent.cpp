// SPDX-License-Identifier: Apache-2.0
#include "ir/parser_rules.h"

#include <span>

namespace tg {

namespace {

struct Row {
  std::string_view words, way;
};

constexpr Row kKernel[] = {
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
     "take tgk.mod on integers; of floats write %x - %y * trunc(%x / %y), with the sign of %x"},
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

constexpr Row kTensor[] = {
    {" where ifelse ", "take tg.select"},
    {" dot dot_general mm bmm mv gemm inner matmul_batched ", "take tg.matmul"},
    {" linear dense addmm ", "take tg.matmul, and tg.add for a bias"},
    {" einsum tensordot ", "write it by tg.matmul, tg.transpose and tg.sum"},
    {" outer ", "take tg.mul of a column and a row, made by tg.reshape"},
    {" amax reduce_max ", "take tg.max_reduce"},
    {" amin reduce_min ", "take tg.min_reduce"},
    {" reduce_sum ", "take tg.sum"},
    {" reduce_mean average avg ", "take tg.mean"},
    {" reduce ", "take tg.sum, tg.mean, tg.max_reduce or tg.min_reduce"},
    {" prod reduce_prod cumprod ", "of numbers above 0 write tg.exp of the tg.sum or tg.cumsum of tg.log"},
    {" all reduce_and ", "take tg.min_reduce of a tg.cast to f32"},
    {" any reduce_or ", "take tg.max_reduce of a tg.cast to f32"},
    {" var variance std stddev ", "write tg.mean of tg.square of the difference from tg.mean"},
    {" norm frobenius_norm ", "write tg.sqrt of tg.sum_of_squares"},
    {" sort argsort topk top_k unique nonzero median quantile ",
     "no op sorts: tg.argmax and tg.argmin find one element, and tg.custom runs a kernel of your own"},
    {" maximum fmax ", "take tg.max"},
    {" minimum fmin ", "take tg.min"},
    {" addf addi plus ", "take tg.add"},
    {" subtract subf subi minus ", "take tg.sub"},
    {" multiply mulf muli ", "take tg.mul"},
    {" divide true_divide divf ", "take tg.div"},
    {" floor_divide floordiv ", "take tg.floor of a tg.div"},
    {" rem mod fmod remainder ", "write x - y * floor(x / y) by tg.div, tg.floor, tg.mul and tg.sub"},
    {" power powf ", "take tg.pow"},
    {" pow2 sqr ", "take tg.square"},
    {" negative negate negf ", "take tg.neg"},
    {" absolute fabs absf ", "take tg.abs"},
    {" exponential ", "take tg.exp"},
    {" exponential_minus_one ", "take tg.expm1"},
    {" ln logarithm ", "take tg.log"},
    {" log_plus_one ", "take tg.log1p"},
    {" log10 ", "take tg.log and a product with 0.4342944819"},
    {" sine ", "take tg.sin"},
    {" cosine ", "take tg.cos"},
    {" arctan2 ", "take tg.atan2"},
    {" inversesqrt invsqrt ", "take tg.rsqrt"},
    {" inverse recip ", "take tg.reciprocal"},
    {" logistic expit ", "take tg.sigmoid"},
    {" swish ", "take tg.silu"},
    {" gelu_new gelu_tanh ", "take tg.gelu"},
    {" leakyrelu lrelu ", "take tg.leaky_relu"},
    {" prelu ", "add tg.max of x and 0 to a product of the slopes and tg.min of x and 0"},
    {" selu celu ", "write it by tg.elu"},
    {" hardswish hardsigmoid hard_swish hard_sigmoid ", "write it by tg.clamp"},
    {" logsigmoid log_sigmoid ", "negate tg.softplus of the negated value"},
    {" softsign ", "divide x by 1 + tg.abs of x"},
    {" glu swiglu geglu ",
     "cut x in two by tg.split, and multiply one by tg.sigmoid, silu or gelu of the other"},
    {" roll ", "take tg.concat of two tg.slice"},
    {" clip clamp_min clamp_max relu6 hardtanh ", "take tg.clamp, or tg.max or tg.min for one bound"},
    {" gt greater_than ", "take tg.greater"},
    {" ge gte ", "take tg.greater_equal"},
    {" lt less_than ", "take tg.less"},
    {" le lte ", "take tg.less_equal"},
    {" eq ", "take tg.equal"},
    {" ne neq ", "take tg.not_equal"},
    {" isnan ", "take tg.not_equal of the value and itself"},
    {" compare cmp cmpf ", "take tg.less, less_equal, greater, greater_equal, equal or not_equal"},
    {" logical_and bitwise_and ", "take tg.and"},
    {" logical_or bitwise_or ", "take tg.or"},
    {" logical_not bitwise_not ", "take tg.not"},
    {" permute permute_dims moveaxis ", "take tg.transpose {perm = [...]}"},
    {" swapaxes t mT ", "take tg.swap_axes"},
    {" view flatten unflatten ravel squeeze unsqueeze expand_dims ", "take tg.reshape"},
    {" cat concatenate hstack vstack ", "take tg.concat"},
    {" chunk unbind ", "take tg.split"},
    {" narrow dynamic_slice strided_slice getitem ", "take tg.slice"},
    {" reverse fliplr flipud ", "take tg.flip"},
    {" expand broadcast broadcast_in_dim ", "take tg.broadcast_to"},
    {" repeat repeat_interleave ", "take tg.tile, or tg.broadcast_to along an axis of extent 1"},
    {" index_select take lookup gather_nd index ",
     "take tg.gather for rows, or tg.take_along_axis for an index of each element"},
    {" gather_elements take_along_dim ", "take tg.take_along_axis"},
    {" scatter scatter_nd index_add segment_sum ", "take tg.scatter_add"},
    {" convert astype to type_as extf truncf convert_element_type ", "take tg.cast"},
    {" zeros ones full zeros_like ones_like full_like const scalar ",
     "take tg.constant, as in %z = tg.constant 0.0 : tensor<4xf32>"},
    {" arange range ", "take tg.iota"},
    {" eye identity ", "take tg.one_hot of a tg.iota"},
    {" tril triu causal ", "take tg.where_causal or tg.causal_mask"},
    {" rand uniform rng_uniform rand_like ", "take tg.random_uniform"},
    {" randn normal rng_normal randn_like ", "take tg.random_normal"},
    {" multinomial ", "take tg.categorical"},
    {" bernoulli ", "take tg.less of tg.random_uniform and the probability"},
    {" conv convolution conv1d ", "take tg.conv2d"},
    {" conv_transpose deconv ", "take tg.conv_transpose2d"},
    {" max_pool maxpool reduce_window ", "take tg.max_pool2d"},
    {" avg_pool avgpool ", "take tg.avg_pool2d"},
    {" upsample interpolate resize ", "take tg.upsample_nearest2d"},
    {" im2col ", "take tg.unfold"},
    {" col2im ", "take tg.fold"},
    {" layernorm ", "take tg.layer_norm"},
    {" rmsnorm ", "take tg.rms_norm"},
    {" batch_norm batchnorm group_norm instance_norm ",
     "write it by tg.mean, tg.sub, tg.square, tg.rsqrt and tg.mul"},
    {" scaled_dot_product_attention sdpa flash_attention ", "take tg.attention"},
    {" softmax_cross_entropy cross_entropy_loss nll_loss ", "take tg.cross_entropy"},
    {" mse mse_loss ", "write tg.mean of tg.square of the difference"},
    {" detach stop_grad ", "take tg.stop_gradient"},
    {" backward autograd ", "run the pass append-grad, or take tg.grad"},
    {" parameter variable ", "take tg.param"},
    {" assign store ", "take tg.update of a param or a state"},
    {" print printf assert ", "keep the value by tg.capture and read it by exec --capture=NAME"},
    {" while for if scan cond case ",
     "a function has no branches: tg.select chooses by element, and tg.custom runs a kernel with loops"},
    {" call ", "functions call none: write the ops here, or a kernel and tg.custom"},
    {" allreduce psum ", "take tg.all_reduce"},
};

/// Looks a word up as it stands in the table.
std::string_view wayOf(std::span<const Row> rows, std::string_view word) {
  if (word.empty() || word.find(' ') != std::string_view::npos) return "";
  for (const Row& row : rows)
    for (size_t at = 0; (at = row.words.find(word, at)) != std::string_view::npos; ++at)
      if (row.words[at - 1] == ' ' && row.words[at + word.size()] == ' ') return row.way;
  return "";
}

}  // namespace

std::string_view insteadOf(std::string_view name) {
  if (std::string_view way = wayOf(kKernel, name); !way.empty()) return way;
  // Prefixes and suffixes of other languages: threadIdx.x, tl.arange, gl_WorkGroupID, __shfl_sync, __shared__.
  for (std::string_view axis : {".x", ".y", ".z"})
    if (name.ends_with(axis)) name.remove_suffix(axis.size());
  name = name.substr(name.find('.') + 1);
  while (name.starts_with('_')) name.remove_prefix(1);
  while (name.ends_with('_')) name.remove_suffix(1);
  if (name.starts_with("gl_")) name.remove_prefix(3);
  if (name.ends_with("_sync")) name.remove_suffix(5);
  return wayOf(kKernel, name);
}

std::string_view insteadOfTensorOp(std::string_view name) {
  return wayOf(kTensor, name.substr(name.rfind('.') + 1));
}

}  // namespace tg
