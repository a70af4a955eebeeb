// SPDX-License-Identifier: Apache-2.0
// Modules that a pass broke in memory in ways that no text can: the pass manager refuses each right behind
// the pass, by op, label and pass, whose bug it is called, and nothing crashes later.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "passes/pass.h"
#include "passes/pass_options.h"
#include "test/unit/module_text.h"

namespace tg::test {
namespace {

constexpr const char* kTensor = R"(module @m {
  param @w : tensor<4x3xf32>
  func @g(%q: tensor<2x4xf32>) -> (y: tensor<2x4xf32>) {
    %e = tg.exp %q : tensor<2x4xf32>
    return %e : tensor<2x4xf32>
  }
  func @f(%x: tensor<2x4xf32>) -> (y: tensor<f32>) {
    %w = tg.param @w : tensor<4x3xf32>
    %z = tg.matmul %x, %w : tensor<2x3xf32>
    %d = tg.sub %z, %z : tensor<2x3xf32>
    %a = tg.argmax %d {axis = 1} : tensor<2xi32>
    %c = tg.cast %a : tensor<2xf32>
    %s = tg.sum %c {axes = [0]} : tensor<f32>
    return %s : tensor<f32>
  }
}
)";

constexpr const char* kFused = R"(module @m stage(fused) {
  func @f(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {
    %y = tg.fused (%a = %x) {schedule = map} : tensor<4xf32> {
      %e = tg.exp %a : tensor<4xf32>
      tg.yield %e : tensor<4xf32>
    }
    return %y : tensor<4xf32>
  }
}
)";

constexpr const char* kCalled = R"(module @m {
  func @half(%v: f32) -> (y: f32) {
    %h = tgk.mul %v, 0.5 : f32
    return %h : f32
  }
  kernel @k(%i: buf<?xf32, in>, %o: buf<?xf32, out>) workgroup(4) grid(ceildiv(dim(%o, 0), 4)) {
    %t = tgk.global_id 0 : u32
    %n = tgk.dim %o, 0 : u32
    %in = tgk.lt %t, %n : bool
    tgk.if %in {
      %l = tgk.load %i[%t] : f32
      %m = tgk.for %j = 0 to(3) iter_args(%acc = %l) : f32 {
        %b = tgk.call @half(%acc) : f32
        tgk.yield %b : f32
      }
      tgk.store %m, %o[%t]
    }
  }
  func @f(%x: tensor<8xf32>) -> (y: tensor<8xf32>) {
    %y = tg.custom @k(%x) : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
)";

std::function<void(Module&)> corruption;
Result<void> runCorrupting(Module& module, const NoOptions&, const PassContext&) {
  corruption(module);
  return {};
}

/// The first op with a name below a block.
Op& find(const Block& block, std::string_view name) {
  Op* found = nullptr;
  walk(block, [&](Op& op) {
    if (!found && op.info().name == name) found = &op;
  });
  return *found;
}
Op& inF(Module& module, std::string_view name) { return find(module.func("f")->body, name); }
Op& inKernel(Module& module, std::string_view name) {
  return find(module.find(ItemKind::kernel, "k")->body, name);
}
void eraseResult(Op& op) { op.results.clear(); }
std::unique_ptr<Value> valueLike(const Value& other, std::string name) {
  auto value = std::make_unique<Value>(other);
  value->name = std::move(name);
  return value;
}

struct Corruption {
  const char* name;
  const char* text;
  std::function<void(Module&)> apply;
  const char* expected;  ///< op and label, and of some the reason
};

const Corruption kCorruptions[] = {
    {"LostOperand", kTensor, [](Module& m) { inF(m, "tg.sub").operands.pop_back(); },
     "tg.sub [op.operand]: operand 'rhs' is missing"},
    {"NoOperands", kTensor, [](Module& m) { inF(m, "tg.matmul").operands.clear(); },
     "tg.matmul [op.operand]: operand 'lhs' is missing"},
    {"TooManyOperands", kTensor,
     [](Module& m) {
       Op& op = inF(m, "tg.sum");
       op.operands.push_back(op.operands[0]);
     },
     "tg.sum [op.operand]: 2 operands, of which 1 fill its slots"},
    {"NullOperand", kTensor, [](Module& m) { inF(m, "tg.sub").operands[1].value = nullptr; },
     "tg.sub [op.operand]: operand 1 is null"},
    {"SymbolForAValue", kTensor, [](Module& m) { inF(m, "tg.sub").operands[0] = Operand::symbol("w"); },
     "tg.sub [op.operand]: operand 'lhs' has the wrong form"},
    {"ValueForASymbol", kTensor,
     [](Module& m) { inF(m, "tg.param").operands[0] = Operand::of(m.func("f")->body.args[0].get()); },
     "tg.param [op.operand]: operand 'name' has the wrong form"},
    {"DuplicateNames", kTensor, [](Module& m) { inF(m, "tg.sub").result()->name = "z"; },
     "tg.sub [op.name]: %z names two values"},
    {"NameOfNoText", kTensor, [](Module& m) { inF(m, "tg.sub").result()->name = "a b"; },
     "tg.sub [op.name]: '%a b' is not a valid name of a value"},
    {"UseBeforeDefinition", kTensor,
     [](Module& m) {
       OpList& ops = m.func("f")->body.ops;
       Op* first = &inF(m, "tg.matmul");
       ops.insert(first, ops.take(first->next()));
     },
     "tg.sub [op.scope]: %z is used where it is not defined yet"},
    {"ValueOfAnotherFunction", kTensor,
     [](Module& m) { inF(m, "tg.sub").operands[0].value = find(m.func("g")->body, "tg.exp").result(); },
     "tg.sub [op.scope]: %e is a value of @g"},
    {"ValueThatIsGone", kTensor,
     [](Module& m) {
       static std::unique_ptr<Op> gone;
       gone = m.func("f")->body.ops.take(&inF(m, "tg.matmul"));
     },
     "tg.sub [op.scope]: an operand is a value that the module does not hold"},
    {"NoResult", kTensor, [](Module& m) { eraseResult(inF(m, "tg.sum")); }, "return [op.operand]"},
    {"ResultTooMany", kTensor,
     [](Module& m) {
       Op& op = inF(m, "tg.sum");
       op.results.push_back(valueLike(*op.result(), "more"));
     },
     "tg.sum [op.result]: has 1 result, not 2"},
    {"PlaceBeforeItsBuffer", kTensor,
     [](Module& m) {
       inF(m, "tg.sub").result()->place = Place{"arena", -4, nullptr};
     },
     "tg.sub [op.place]: %d has an offset that is negative or too large"},
    {"NullResult", kTensor, [](Module& m) { inF(m, "tg.param").results[0].reset(); },
     "tg.param [op.result]: a value is null"},
    {"ResultOfAnotherOp", kTensor, [](Module& m) { inF(m, "tg.sub").result()->def = nullptr; },
     "tg.sub [op.result]: %d does not know that this op defines it"},
    {"ResultType", kTensor,
     [](Module& m) {
       inF(m, "tg.sub").result()->type = Type::tensor(DType::f32, {2, 4});
     },
     "tg.sub [op.result]: result %d is tensor<2x3xf32>, not tensor<2x4xf32>"},
    {"TypeWithoutExtents", kTensor, [](Module& m) { inF(m, "tg.param").result()->type.shape[0] = 0; },
     "tg.param [op.type]: %w is tensor<0x3xf32>"},
    {"NoType", kTensor, [](Module& m) { inF(m, "tg.sub").result()->type = Type{}; },
     "tg.sub [op.type]: %d has no type"},
    {"AttributeRemoved", kTensor, [](Module& m) { inF(m, "tg.argmax").attrs.clear(); },
     "tg.argmax [op.attr]: attribute 'axis' is required"},
    {"AttributeOfAnotherKind", kTensor,
     [](Module& m) { inF(m, "tg.sum").setAttr("axes", Attr::string("0")); },
     "tg.sum [op.attr]: attribute 'axes' is a list of integers, not \"0\""},
    {"AttributeTwice", kTensor,
     [](Module& m) {
       Op& op = inF(m, "tg.argmax");
       op.attrs.push_back(op.attrs[0]);
     },
     "tg.argmax [op.attr]: attribute 'axis' is given twice"},
    {"OpOfAnotherStage", kTensor, [](Module& m) { inF(m, "tg.cast").code = Opcode::yield; },
     "tg.yield [op.stage]: not allowed in a function at stage tensor"},
    {"StageOfTheModule", kTensor, [](Module& m) { m.stage = Stage::fused; }, "it should give stage(tensor)"},
    {"UnknownSymbol", kTensor, [](Module& m) { inF(m, "tg.param").operands[0].text = "v"; },
     "tg.param [param.c1]: @v is not declared as a param"},
    {"TwoItemsOfAName", kTensor,
     [](Module& m) { m.addStorage(ItemKind::state, "w")->type = m.storage("w")->type; },
     "state [item.name]: @w names two items"},
    {"NothingReturned", kTensor, [](Module& m) { m.func("f")->body.ops.takeBack(); },
     "func @f [func.return]: it does not end with return"},
    {"RegionRemoved", kFused, [](Module& m) { inF(m, "tg.fused").regions.clear(); },
     "tg.fused [op.region]: 0 regions, it takes 1"},
    {"NullRegion", kFused, [](Module& m) { inF(m, "tg.fused").regions[0].reset(); },
     "tg.fused [op.region]: a region is null"},
    {"ArgumentNobodyBinds", kFused,
     [](Module& m) { inF(m, "tg.fused").regions[0]->addArg(Type::tensor(DType::f32, {4}), "b"); },
     "tg.fused [op.region]: 1 argument is bound, its region has 2 or others"},
    {"ArgumentOfAnotherType", kFused,
     [](Module& m) { inF(m, "tg.fused").regions[0]->args[0]->type = Type::tensor(DType::f32, {5}); },
     "tg.fused [op.region]: %a is tensor<5xf32>, what it is bound to tensor<4xf32>"},
    {"NotIsolated", kFused,
     [](Module& m) { inF(m, "tg.exp").operands[0].value = m.func("f")->body.args[0].get(); },
     "tg.exp [op.scope]: %x is used where it is not defined yet"},
    {"NotBound", kFused, [](Module& m) { inF(m, "tg.fused").operands[0].items.clear(); },
     "tg.fused [op.operand]: operand 0 binds no argument to a source"},
    {"GroupOfNothing", kFused, [](Module& m) { inF(m, "tg.fused").groups = {2}; },
     "tg.fused [op.result]: groups of 2 results, it has 1"},
    {"ScheduleOfNothing", kFused,
     [](Module& m) {
       inF(m, "tg.fused").setAttr("schedule", Attr::call("map", {}, {{"vec", Attr::of(int64_t{0})}}));
     },
     "tg.fused [fused.schedule]: schedule map{vec = 0} has 0 in 'vec', which takes 1 or 4"},
    {"DeepRegions", kCalled,
     [](Module& m) {
       Block* block = &m.find(ItemKind::kernel, "k")->body;
       Op& branch = inKernel(m, "tgk.if");
       for (int depth = 0; depth < 100000; ++depth) {
         auto op = Op::create(Opcode::k_if, branch.loc, branch.operands);
         op->regions.push_back(std::make_unique<Block>());
         Block* inner = op->regions[0].get();
         block->ops.push_back(std::move(op));
         block = inner;
       }
     },
     "tgk.if [op.region]: regions are nested deeper than 64"},
    {"KernelOperand", kCalled, [](Module& m) { inKernel(m, "tgk.load").operands.clear(); },
     "tgk.load [op.operand]: operand 'from' is missing"},
    {"KernelScope", kCalled,
     [](Module& m) { inKernel(m, "tgk.store").operands[0].value = inKernel(m, "tgk.call").result(); },
     "tgk.store [op.scope]: %b is used where it is not defined yet"},
    {"CarriedByNoArgument", kCalled,
     [](Module& m) {
       Operand* carried = inKernel(m, "tgk.for").keyword("iter_args");
       carried->items[0] = carried->items[0].items[0];
     },
     "tgk.for [op.operand]: operand 2 binds no arguments"},
    {"GridOfAnotherKernel", kCalled,
     [](Module& m) {
       Operand& dim = m.find(ItemKind::kernel, "k")->grid[0].items[0];
       dim.items[0].value = m.func("f")->body.args[0].get();
     },
     "kernel @k [kernel.grid]: an extent reads a value that is not a parameter"},
    {"ValueOfASymbol", kTensor,
     [](Module& m) { inF(m, "tg.param").operands[0].value = m.func("f")->body.args[0].get(); },
     "tg.param [op.operand]: operand 0 reads a value, which its kind does not"},
    {"PartsOfAValue", kTensor,
     [](Module& m) { inF(m, "tg.sub").operands[1].items.push_back(Operand::literal(int64_t{1})); },
     "tg.sub [op.operand]: operand 1 has parts, which its kind has not"},
    {"PlaceBeforeThePlan", kTensor,
     [](Module& m) {
       inF(m, "tg.sub").result()->place = Place{"arena", 0, nullptr};
     },
     "tg.sub [op.place]: %d has a place, which values have from stage planned on"},
    {"PlaceInAKernel", kCalled,
     [](Module& m) {
       inKernel(m, "tgk.load").result()->place = Place{"arena", 0, nullptr};
     },
     "tgk.load [op.place]: %l has a place, and values of kernels have none"},
    {"PlaceInNoBuffer", kTensor,
     [](Module& m) {
       m.storage("w")->place = Place{"", 0, nullptr};
     },
     "param @w [item.place]: it has a place in a buffer without a name"},
    {"HomeOfAValue", kTensor,
     [](Module& m) {
       m.storage("w")->place = Place{"persistent", 0, m.func("f")->body.args[0].get()};
     },
     "param @w [item.place]: it has a home in place of a value"},
    {"ParamWithoutExtents", kTensor, [](Module& m) { m.storage("w")->type.shape[0] = 0; },
     "param @w [item.type]: it is tensor<0x3xf32>"},
    {"OpInAParam", kTensor,
     [](Module& m) {
       OpList& ops = m.func("f")->body.ops;
       m.storage("w")->body.ops.push_back(ops.take(&inF(m, "tg.cast")));
       inF(m, "tg.sum").operands[0].value = m.func("f")->body.args[0].get();
     },
     "param @w [item.body]: it holds ops or arguments, as only functions and kernels do"},
    {"AttributeWithoutAValue", kTensor,
     [](Module& m) {
       m.storage("w")->attrs.push_back({"dims", Attr()});
     },
     "@w: attribute 'dims' has no value"},
    {"SizeOfABuffer", kTensor, [](Module& m) { m.addBuffer("b", INT64_MAX); },
     "buffer @b [item.bytes]: a size of 9223372036854775807 bytes"},
    {"BinaryBeforeItsStage", kTensor, [](Module& m) { m.add(ItemKind::binary, "b"); },
     "@b: a binary is not allowed at stage tensor"},
    {"AttributeOfAParamTwice", kTensor,
     [](Module& m) {
       for (int i = 0; i < 2; ++i) m.storage("w")->attrs.push_back({"decay", Attr::boolean(true)});
     },
     "@w: attribute 'decay' is given twice"},
    {"ReturnWithAResult", kCalled,
     [](Module& m) {
       find(m.kernelFunc("half")->body, "return").addResult(Type::scalar(DType::f32), "more");
     },
     "return [op.result]: has 0 results, not 1"},
    {"CallOfNothing", kCalled, [](Module& m) { inKernel(m, "tgk.call").operands[0].text = "nope"; },
     "tgk.call [k_call.c1]: there is no func @nope of kernel scalars"},
};

class CorruptionTest : public testing::TestWithParam<Corruption> {};

TEST_P(CorruptionTest, IsRefusedBehindThePass) {
  auto add = [](const char* name, Stage stage) {
    if (findPass(name)) return;
    ASSERT_TRUE(registerPass({name, "", stage, stage, "", {}, passFactory<NoOptions>(name, runCorrupting)}));
  };
  add("t-corrupt-tensor", Stage::tensor);
  add("t-corrupt-fused", Stage::fused);
  auto module = verified(GetParam().text);
  corruption = GetParam().apply;
  const std::string pass = fmt::format("t-corrupt-{}", name(module->stage));
  bool next = false;  // a pass behind it must not run
  auto manager = PassManager::parse(fmt::format("{0},{0}", pass));
  ASSERT_TRUE(manager) << manager.error().str();
  manager->verifyEach(VerifyEach::on)
      .reproducer("")
      .instrument(
          {[&](const PipelineStep&, int index, const Module&) { next = next || index == 1; }, {}, {}});
  auto done = manager->run(module);
  ASSERT_FALSE(done);
  EXPECT_FALSE(next);
  const std::string text = done.error().str();
  EXPECT_NE(text.find(GetParam().expected), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("pass {} ", pass)), std::string::npos) << text;
  EXPECT_NE(text.find("a bug in that pass"), std::string::npos) << text;
  EXPECT_EQ(text.find("compiler"), std::string::npos) << text;
  if (std::string_view(GetParam().name) == "DeepRegions") {  // its destructor would need a frame a level
    Block* block = &module->find(ItemKind::kernel, "k")->body;
    OpList levels;
    while (!block->ops.empty() && block->ops.back()->code == Opcode::k_if) {
      levels.push_back(block->ops.takeBack());
      block = levels.back()->regions[0].get();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corruptions, CorruptionTest, testing::ValuesIn(kCorruptions),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tg::test
