// SPDX-License-Identifier: Apache-2.0
// Kernels built in C++: they verify and read as what was meant.
#include "ir/kernel/builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/verify.h"

namespace tg::test {
namespace {

Item kernelItem() {
  Item item;
  item.kind = ItemKind::kernel;
  item.name = "k";
  item.workgroup = {4, 1, 1};
  item.grid = {Operand::literal(int64_t{1})};
  return item;
}

/// The body of a kernel that verifies, as text.
std::string bodyOf(const Item& item) {
  auto checked = verifyKernel(item);
  EXPECT_TRUE(checked) << checked.error().str() << print(item);
  std::string text = print(item);
  return text.substr(text.find("{\n") + 2);
}

TEST(KernelBuilder, MemoryHasAnIndexForEachAxis) {
  Item item = kernelItem();
  KernelBuilder b(&item);
  Value* x = b.parameter(Type::buffer(DType::f16, 1, {4, Shape::kDynamic}, BufMode::in), "x");
  Value* n = b.parameter(Type::buffer(DType::u32, 1, {4}, BufMode::inout), "n");
  Value* q = b.parameter(Type::buffer(DType::i32, 1, {4, 11}, BufMode::inout), "q");
  Value* s = b.sharedBuffer(Type::buffer(DType::f32, 2, {4}, BufMode::shared), "s");
  KV i = b.id(Opcode::k_local_id, 0);
  EXPECT_TRUE(b.dim(x, 0).is(4));
  KV last = b.op(Opcode::k_sub, {b.dim(x, 1), KernelBuilder::u32(1)});
  KV v = b.load(x, {i, last});
  EXPECT_EQ(b.load(x, {i, last}).value, v.value);  // nobody writes it
  b.store(v, s, {i});
  b.accumulate(KernelBuilder::f32(1), s, {i});
  KV old = b.atomic(Opcode::k_atomic_max, i, n, {KernelBuilder::u32(0)}, true);
  b.atomicCompareExchange(old, KernelBuilder::u32(7), n, {KernelBuilder::u32(1)});
  b.exactAdd(v, q, {i});
  b.exactStore(b.exactLoad(q, {i}), q, {i});
  EXPECT_EQ(bodyOf(item), R"(    %s = tgk.shared : buf<4xvec2<f32>, shared>
    %local_id = tgk.local_id 0 : u32
    %dim = tgk.dim %x, 1 : u32
    %sub = tgk.sub %dim, 1 : u32
    %load = tgk.load %x[%local_id, %sub] : f32
    %vec = tgk.vec %load : vec2<f32>
    tgk.store %vec, %s[%local_id]
    %vec_2 = tgk.vec 1.0 : vec2<f32>
    tgk.accumulate %vec_2, %s[%local_id]
    %atomic_max = tgk.atomic_max %local_id, %n[0] : u32
    tgk.atomic_compare_exchange %atomic_max, 7, %n[1]
    tgk.exact_add %load, %q[%local_id]
    %exact_load = tgk.exact_load %q[%local_id] : f32
    tgk.exact_store %exact_load, %q[%local_id]
  }
)");
}

TEST(KernelBuilder, BranchesAndLoopsGiveSeveralValues) {
  Item item = kernelItem();
  KernelBuilder b(&item);
  Value* x = b.parameter(Type::buffer(DType::f32, 1, {4}, BufMode::in), "x");
  Value* y = b.parameter(Type::buffer(DType::f32, 1, {4}, BufMode::out), "y");
  KV i = b.id(Opcode::k_local_id, 0);
  KV v = b.load(x, i);
  KV positive = b.op(Opcode::k_gt, {v, KernelBuilder::f32(0)});
  std::vector<KV> both = b.branch(
      positive, {Type::scalar(DType::f32), Type::scalar(DType::u32)},
      [&] {
        return std::vector<KV>{b.op(Opcode::k_sqrt, {v}), i};
      },
      [&] {
        return std::vector<KV>{KernelBuilder::f32(0), KernelBuilder::u32(3)};
      });
  std::vector<KV> sum = b.loop(b.depth(), KernelBuilder::u32(0), KernelBuilder::u32(8), both[1], {both[0]},
                               [&](const KV& k, const std::vector<KV>& carried) {
                                 return std::vector<KV>{b.add(carried[0], b.cast(k, DType::f32))};
                               });
  b.store(sum[0], y, i);
  b.branch(positive, {}, [] { return std::vector<KV>{}; });
  EXPECT_EQ(bodyOf(item), R"(    %local_id = tgk.local_id 0 : u32
    %load = tgk.load %x[%local_id] : f32
    %gt = tgk.gt %load, 0.0 : bool
    %sqrt = tgk.sqrt %load : f32
    %if, %if_2 = tgk.if %gt : f32, u32 {
      tgk.yield %sqrt, %local_id : f32, u32
    } else {
      tgk.yield 0.0, 3
    }
    %sum = tgk.for %k = 0 to(8) step(%if_2) iter_args(%acc = %if) : f32 {
      %cast = tgk.cast %k : f32
      %add = tgk.add %acc, %cast : f32
      tgk.yield %add : f32
    }
    tgk.store %sum, %y[%local_id]
    tgk.if %gt {
      tgk.yield
    }
  }
)");
}

TEST(KernelBuilder, ALiteralConditionMakesNoIf) {
  Item item = kernelItem();
  KernelBuilder b(&item);
  int taken = 0;
  auto body = [&](int which) {
    return [&taken, which] { return taken = which, std::vector<KV>{KernelBuilder::f32(which)}; };
  };
  EXPECT_TRUE(
      b.branch(KernelBuilder::literal(DType::i1, 0), {Type::scalar(DType::f32)}, body(1), body(2))[0].is(2));
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(item.body.ops.empty());
}

// A user's mistake is what the verifier finds in the kernel, whatever the builder makes of its operands.
TEST(KernelBuilder, MistakesAreErrorsThatNameTheOp) {
  struct Mistake {
    const char* error;  ///< a piece of it
    std::function<void(KernelBuilder& b, Value* x, Value* y)> build;
  };
  using KB = KernelBuilder;
  const auto at = [](KB& b, Value* x) { return b.load(x, b.id(Opcode::k_global_id, 0)); };
  const Mistake mistakes[] = {
      {"tgk.add", [&](KB& b, Value* x, Value*) { b.op(Opcode::k_add, {at(b, x)}); }},
      {"tgk.add", [&](KB& b, Value*, Value*) { b.op(Opcode::k_add, {}); }},
      {"tgk.exp",
       [&](KB& b, Value* x, Value*) {
         b.op(Opcode::k_exp, {at(b, x), at(b, x), at(b, x)});
       }},
      {"tgk.add", [&](KB& b, Value* x, Value*) { b.op(Opcode::k_add, std::vector<KV>(20, at(b, x))); }},
      {"tgk.select", [&](KB& b, Value* x, Value*) { b.op(Opcode::k_select, {at(b, x)}); }},
      {"tgk.mul", [&](KB& b, Value* x, Value*) { b.mul(at(b, x), b.id(Opcode::k_global_id, 0)); }},
      {"tgk.lt",
       [&](KB& b, Value*, Value*) {
         b.op(Opcode::k_lt, {KB::f32(1), KB::u32(2)});
       }},
      {"tgk.exp", [&](KB& b, Value*, Value*) { b.op(Opcode::k_exp, {b.id(Opcode::k_global_id, 0)}); }},
      {"tgk.global_id", [&](KB& b, Value*, Value*) { b.id(Opcode::k_global_id, 7); }},
      {"tgk.load",
       [&](KB& b, Value* x, Value*) {
         b.load(x, {KB::u32(0), KB::u32(0)});
       }},
      {"tgk.load", [&](KB& b, Value* x, Value*) { b.load(x, std::vector<KV>(20, KB::u32(0))); }},
      {"tgk.load", [&](KB& b, Value* x, Value*) { b.load(at(b, x).value, KB::u32(0)); }},
      {"tgk.load [op.operand]", [&](KB& b, Value*, Value*) { b.load(nullptr, KB::u32(0)); }},
      {"tgk.store [op.operand]", [&](KB& b, Value* x, Value*) { b.store(at(b, x), nullptr, KB::u32(0)); }},
      {"tgk.atomic_add [op.operand]",
       [&](KB& b, Value*, Value*) { b.atomic(Opcode::k_atomic_add, KB::u32(1), nullptr, {}, true); }},
      {"tgk.dim [op.operand]", [&](KB& b, Value*, Value*) { b.dim(nullptr, 0); }},
      {"tgk.store", [&](KB& b, Value* x, Value*) { b.store(at(b, x), x, KB::u32(0)); }},
      {"tgk.store", [&](KB& b, Value*, Value* y) { b.store(b.id(Opcode::k_global_id, 0), y, KB::u32(0)); }},
      {"tgk.vec",
       [&](KB& b, Value* x, Value*) {
         b.vec({at(b, x), at(b, x), KB::f32(0)});
       }},
      {"tgk.vec", [&](KB& b, Value*, Value*) { b.vec({}); }},
      {"tgk.extract", [&](KB& b, Value* x, Value*) { b.extract(b.splat(at(b, x)), 9); }},
      {"tgk.if", [&](KB& b, Value* x, Value*) { b.guard(at(b, x), [] {}); }},
      {"tgk.if",
       [&](KB& b, Value* x, Value*) {
         const KV cond = b.op(Opcode::k_lt, {at(b, x), KB::f32(0)});
         b.branch(
             cond, {Type::scalar(DType::f32)}, [] { return std::vector<KV>(2, KB::f32(0)); },
             [] { return std::vector<KV>{}; });
       }},
      {"tgk.for",
       [&](KB& b, Value*, Value*) {
         b.loop(0, KB::u32(0), 4, 1, {KB::f32(0)},
                [](const KV&, const std::vector<KV>&) { return std::vector<KV>{}; });
       }},
      {"tgk.store",
       [&](KB& b, Value* x, Value* y) {
         KV inside;
         b.loop(0, KB::u32(0), 4, 1, {}, [&](const KV& k, const std::vector<KV>&) {
           inside = b.loadHere(x, k);
           return std::vector<KV>{};
         });
         b.store(inside, y, KB::u32(0));
       }},
      {"tgk.mul",
       [&](KB& b, Value* x, Value*) {
         KV inside;
         b.loop(0, KB::u32(0), 4, 1, {}, [&](const KV& k, const std::vector<KV>&) {
           inside = b.loadHere(x, k);
           return std::vector<KV>{};
         });
         b.mul(inside, inside);
       }},
      {"tgk.dim", [&](KB& b, Value* x, Value*) { b.dim(x, 5); }},
      {"tgk.dim", [&](KB& b, Value* x, Value*) { b.dim(x, -1); }},
      {"tgk.coopmat_row_reduce", [&](KB& b, Value*, Value*) { b.coopmatRowReduce({}, "add"); }},
      {"tgk.for",
       [&](KB& b, Value* x, Value*) {
         b.loop(3, KB::f32(0), 4, 1, {}, [&](const KV& k, const std::vector<KV>&) {
           b.loadHere(x, k);
           return std::vector<KV>{};
         });
       }},
      {"tgk.workgroup_reduce", [&](KB& b, Value* x, Value*) { b.workgroupReduce(at(b, x), "median"); }},
  };
  for (size_t i = 0; i < std::size(mistakes); ++i) {
    Module module;
    module.name = "m";
    Item* item = module.add(ItemKind::kernel, "k");
    item->workgroup = {4, 1, 1};
    item->grid = {Operand::literal(int64_t{1})};
    KernelBuilder b(item);
    Value* x = b.parameter(Type::buffer(DType::f32, 1, {4}, BufMode::in), "x");
    Value* y = b.parameter(Type::buffer(DType::f32, 1, {4}, BufMode::out), "y");
    mistakes[i].build(b, x, y);
    auto checked = verify(module);
    ASSERT_FALSE(checked) << i << print(module);
    EXPECT_NE(checked.error().str().find(mistakes[i].error), std::string::npos) << i << checked.error().str();
  }
}

TEST(KernelBuilder, LiteralsFold) {
  Item item = kernelItem();
  KernelBuilder b(&item);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(b.op(Opcode::k_isinf, {KernelBuilder::f32(inf)}).is(1));
  EXPECT_TRUE(b.op(Opcode::k_isfinite, {KernelBuilder::f32(inf)}).is(0));
  EXPECT_TRUE(b.bitcast(KernelBuilder::f32(1), DType::u32).is(0x3f800000));
  EXPECT_TRUE(b.bitcast(KernelBuilder::u32(0xffffffff), DType::i32).is(-1));
  EXPECT_TRUE(b.bitcast(KernelBuilder::literal(DType::i32, -1073741824), DType::f32).is(-2));
  EXPECT_TRUE(item.body.ops.empty());
}

// Rounding changes nothing that a buffer of the type holds, nor a choice among such elements; it changes others.
TEST(KernelBuilder, RoundingsOfRoundedElementsFold) {
  for (const DType narrow : {DType::f16, DType::bf16}) {
    Item item = kernelItem();
    KernelBuilder b(&item);
    const Opcode code = narrow == DType::f16 ? Opcode::k_round_f16 : Opcode::k_round_bf16;
    auto folds = [&](const KV& x) { return b.op(code, {x}, DType::f32).value == x.value; };
    Value* near = b.parameter(Type::buffer(narrow, 1, {8}, BufMode::in), "x");
    Value* other =
        b.parameter(Type::buffer(narrow == DType::f16 ? DType::bf16 : DType::f16, 1, {8}, BufMode::in), "y");
    const KV at = b.id(Opcode::k_global_id, 0);
    const KV x = b.load(near, at), y = b.load(other, at);
    const KV some = b.op(Opcode::k_lt, {at, KernelBuilder::u32(3)}, DType::i1);
    EXPECT_TRUE(folds(x));
    EXPECT_TRUE(folds(b.select(some, x, KernelBuilder::f32(1.5))));
    EXPECT_TRUE(folds(b.vec({x, KernelBuilder::f32(0), x, x})));
    EXPECT_TRUE(folds(b.op(code, {y}, DType::f32)));
    EXPECT_FALSE(folds(y));
    EXPECT_FALSE(folds(b.select(some, x, y)));
    EXPECT_FALSE(folds(b.select(some, x, KernelBuilder::f32(1 + 0x1p-11))));
    EXPECT_FALSE(folds(b.vec({x, y, x, x})));
    EXPECT_FALSE(folds(b.add(x, x)));
  }
}

// As tgk.cast of a value: the fraction is dropped, what is out of range clamped, NaN is 0; integers wrap.
TEST(KernelBuilder, CastsOfLiteralsAreThoseOfValues) {
  Item item = kernelItem();
  KernelBuilder b(&item);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const struct {
    double from;
    double i32, u32;
  } cases[] = {{2.7, 2, 2},
               {-2.7, -2, 0},
               {3e9, 2147483647, 3e9},
               {-3e9, -2147483648.0, 0},
               {inf, 2147483647, 4294967295},
               {-inf, -2147483648.0, 0},
               {nan, 0, 0}};
  for (const auto& each : cases) {
    EXPECT_TRUE(b.cast(KernelBuilder::f32(each.from), DType::i32).is(each.i32)) << each.from;
    EXPECT_TRUE(b.cast(KernelBuilder::f32(each.from), DType::u32).is(each.u32)) << each.from;
    EXPECT_TRUE(b.cast(KernelBuilder::f32(each.from), DType::i1).is(1)) << each.from;
  }
  EXPECT_TRUE(b.cast(KernelBuilder::literal(DType::i32, -1), DType::u32).is(4294967295));
  EXPECT_TRUE(b.cast(KernelBuilder::u32(4294967295), DType::i32).is(-1));
  EXPECT_TRUE(b.cast(KernelBuilder::literal(DType::i32, 16777217), DType::f32).is(16777216));
  EXPECT_FALSE(std::signbit(b.cast(b.cast(KernelBuilder::f32(-0.5), DType::i32), DType::f32).number));
  EXPECT_TRUE(b.cast(KernelBuilder::f32(1 + 0x1p-11), DType::f16).is(1));
  EXPECT_TRUE(item.body.ops.empty());
}

TEST(KernelBuilder, CooperationAndCalls) {
  Item item = kernelItem();
  KernelBuilder b(&item);
  Value* x = b.parameter(Type::buffer(DType::f32, 1, {4}, BufMode::in), "x");
  Value* t = b.localBuffer(Type::buffer(DType::u32, 1, {2}, BufMode::local), "t");
  KV v = b.stopGradient(b.load(x, b.id(Opcode::k_global_id, 0)));
  KV sum = b.subgroupReduce(v, "add");
  KV other = b.subgroupShuffle(sum, b.subgroup(Opcode::k_subgroup_lane));
  KV mask = b.subgroupBallot(b.op(Opcode::k_isnan, {other}));
  b.store(b.extract(mask, 0), t, KernelBuilder::u32(0));
  KV called = b.call("half", {other, KernelBuilder::f32(2)}, {Type::scalar(DType::f32)})[0];
  b.workgroupReduce(called, "max");
  EXPECT_EQ(bodyOf(item), R"(    %t = tgk.local : buf<2xu32, local>
    %global_id = tgk.global_id 0 : u32
    %load = tgk.load %x[%global_id] : f32
    %stop_gradient = tgk.stop_gradient %load : f32
    %subgroup_reduce = tgk.subgroup_reduce %stop_gradient : f32
    %subgroup_lane = tgk.subgroup_lane : u32
    %subgroup_shuffle = tgk.subgroup_shuffle %subgroup_reduce, %subgroup_lane : f32
    %isnan = tgk.isnan %subgroup_shuffle : bool
    %subgroup_ballot = tgk.subgroup_ballot %isnan : vec4<u32>
    %extract = tgk.extract %subgroup_ballot, 0 : u32
    tgk.store %extract, %t[0]
    %call = tgk.call @half(%subgroup_shuffle, 2.0) : f32
    %workgroup_reduce = tgk.workgroup_reduce %call {kind = max} : f32
  }
)");
}

}  // namespace
}  // namespace tg::test
