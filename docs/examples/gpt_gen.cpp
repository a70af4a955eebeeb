// SPDX-License-Identifier: Apache-2.0
#include "docs/examples/gpt_gen.h"

#include <cmath>

#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/tensor_expr.h"
#include "ir/verify.h"

namespace tg {

namespace {

constexpr double kDeviation = 0.02;  ///< of the matrices at the start

/// Declares the parameters once; the functions read them by name.
class Parameters {
 public:
  explicit Parameters(Module& module) : module_(module) {}
  /// `dims` are names of the axes that tg-run's --set-dim may give another extent.
  void matrix(const std::string& name, int64_t rows, int64_t columns, double deviation = kDeviation,
              const std::vector<std::string>& dims = {}) {
    add(name, {rows, columns}, Attr::call("randn", {Attr::of(deviation)}));
    if (!dims.empty()) module_.storage(name)->attrs.push_back({"dims", dimsAttr(dims)});
  }
  void vector(const std::string& name, int64_t size, const char* init) {
    add(name, {size}, Attr::word(init));
  }
  void linear(const std::string& name, int64_t in, int64_t out, double deviation = kDeviation) {
    matrix(name + ".w", in, out, deviation);
    vector(name + ".b", out, "zeros");
  }
  void norm(const std::string& name, int64_t width) {
    vector(name + ".gain", width, "ones");
    vector(name + ".bias", width, "zeros");
  }

 private:
  void add(const std::string& name, Shape shape, Attr init) {
    Item* item = module_.add(ItemKind::param, name);
    item->type = Type::tensor(DType::f32, shape);
    item->attrs = {{"init", std::move(init)}};
  }
  Module& module_;
};

void declare(const GptConfig& config, Module& module) {
  Parameters params(module);
  int64_t width = config.width;
  double residual =
      config.scaledResiduals ? kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers)) : kDeviation;
  params.matrix("tokens.w", config.vocab, width, kDeviation, {"vocab", ""});
  params.matrix("positions.w", config.block, width, kDeviation, {"time", ""});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::string block = fmt::format("blocks.{}.", layer);
    params.norm(block + "ln1", width);
    params.linear(block + "attn.qkv", width, 3 * width);
    params.linear(block + "attn.proj", width, width, residual);
    params.norm(block + "ln2", width);
    params.linear(block + "mlp.fc", width, 4 * width);
    params.linear(block + "mlp.out", 4 * width, width, residual);
  }
  params.norm("ln", width);
  if (!config.tiedHead) params.matrix("head.w", width, config.vocab, kDeviation, {"", "vocab"});
}

/// The forward pass of one function.
class Forward {
 public:
  Forward(const GptConfig& config, Module& module, Item& func, int64_t batch)
      : config_(config), module_(module), builder_(&module, &func), batch_(batch) {}

  /// From ids [B, T] to logits [B, T, V].
  TensorExpr logits(Value* tokens) {
    TensorExpr table = param("tokens.w"), positions = param("positions.w");
    TensorExpr x = named("x0", hinted("embedded", Opcode::embedding, {table.value, tokens}) + positions);
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      block_ = fmt::format("blocks.{}.", layer);
      short_ = fmt::format("b{}_", layer);
      x = named(short_ + "x1", x + attention(norm(x, block_ + "ln1")));
      x = named(short_ + "x2", x + feedForward(norm(x, block_ + "ln2")));
    }
    TensorExpr last = norm(x, "ln");
    if (config_.tiedHead)
      return hinted("logits", Opcode::matmul, {last.value, table.value},
                    {{"transpose_b", Attr::boolean(true)}});
    return hinted("logits", Opcode::matmul, {last.value, param("head.w").value});
  }
  Builder& builder() { return builder_; }

 private:
  TensorExpr param(const std::string& name) {
    builder_.setHint(name);
    Value* value =
        builder_.create(Opcode::param, {Operand::symbol(name)}, {}, {module_.storage(name)->type})->result();
    builder_.setHint("");
    return {&builder_, value};
  }
  TensorExpr op(Opcode code, std::vector<Value*> operands, AttrList attrs = {}) {
    return {&builder_, builder_.op(code, operands, std::move(attrs))};
  }
  TensorExpr hinted(const std::string& hint, Opcode code, std::vector<Value*> operands, AttrList attrs = {}) {
    builder_.setHint(hint);
    TensorExpr out = op(code, std::move(operands), std::move(attrs));
    builder_.setHint("");
    return out;
  }
  /// A value nobody has read yet, under another name.
  TensorExpr named(const std::string& name, TensorExpr value) {
    value.value->name = builder_.names().unique(name);
    return value;
  }
  TensorExpr linear(TensorExpr x, const std::string& name, const std::string& hint) {
    TensorExpr weight = param(name + ".w"), bias = param(name + ".b");
    return named(hint, hinted(hint + "_xw", Opcode::matmul, {x.value, weight.value}) + bias);
  }
  TensorExpr norm(TensorExpr x, const std::string& name) {
    std::string hint = name == "ln" ? "ln" : short_ + name.substr(block_.size());
    TensorExpr gain = param(name + ".gain"), bias = param(name + ".bias");
    return hinted(hint, Opcode::layer_norm, {x.value, gain.value, bias.value});
  }
  /// Part 0, 1 or 2 of the joint projection [B, T, 3C], as [B, H, T, C/H].
  TensorExpr head(TensorExpr qkv, int64_t part, const std::string& hint) {
    int64_t width = config_.width;
    TensorExpr slice = hinted(hint + "_part", Opcode::slice, {qkv.value},
                              {{"starts", Attr::ints({0, 0, part * width})},
                               {"limits", Attr::ints({batch_, config_.block, (part + 1) * width})}});
    TensorExpr split =
        named(hint + "_split", slice.reshape({batch_, config_.block, config_.heads, width / config_.heads}));
    return hinted(hint, Opcode::transpose, {split.value}, {{"perm", Attr::ints({0, 2, 1, 3})}});
  }
  /// softmax(q·kᵀ/√(C/H))·v, causal.
  TensorExpr softmaxMixed(TensorExpr q, TensorExpr k, TensorExpr v) {
    TensorExpr products =
        hinted(short_ + "qk", Opcode::matmul, {q.value, k.value}, {{"transpose_b", Attr::boolean(true)}});
    double perHead = static_cast<double>(config_.width / config_.heads);
    TensorExpr scores = named(short_ + "scores", products * (1.0 / std::sqrt(perHead)));
    TensorExpr weights =
        hinted(short_ + "weights", Opcode::softmax, {scores.value}, {{"causal", Attr::boolean(true)}});
    return hinted(short_ + "mixed", Opcode::matmul, {weights.value, v.value});
  }
  /// The same as one op; its row statistics are left out, append-grad adds them where they are read.
  TensorExpr attentionMixed(TensorExpr q, TensorExpr k, TensorExpr v) {
    builder_.setHint(short_ + "mixed");
    Op* op =
        builder_.create(Opcode::attention, {Operand::of(q.value), Operand::of(k.value), Operand::of(v.value)},
                        {{"causal", Attr::boolean(true)}}, {q.value->type});
    builder_.setHint("");
    return {&builder_, op->result()};
  }
  TensorExpr attention(TensorExpr x) {
    TensorExpr qkv = linear(x, block_ + "attn.qkv", short_ + "qkv");
    TensorExpr q = head(qkv, 0, short_ + "q"), k = head(qkv, 1, short_ + "k"), v = head(qkv, 2, short_ + "v");
    TensorExpr mixed = config_.mixing == "attention" ? attentionMixed(q, k, v) : softmaxMixed(q, k, v);
    TensorExpr apart =
        hinted(short_ + "mixed_t", Opcode::transpose, {mixed.value}, {{"perm", Attr::ints({0, 2, 1, 3})}});
    TensorExpr joined = named(short_ + "heads", apart.reshape({batch_, config_.block, config_.width}));
    return linear(joined, block_ + "attn.proj", short_ + "attn");
  }
  TensorExpr feedForward(TensorExpr x) {
    TensorExpr hidden = linear(x, block_ + "mlp.fc", short_ + "fc");
    TensorExpr active = config_.activation == "relu" ? hinted(short_ + "act", Opcode::relu, {hidden.value})
                                                     : hinted(short_ + "act", Opcode::gelu, {hidden.value},
                                                              {{"approximate", Attr::word("tanh")}});
    return linear(active, block_ + "mlp.out", short_ + "mlp");
  }

  const GptConfig& config_;
  Module& module_;
  Builder builder_;
  int64_t batch_;
  std::string block_, short_;  ///< prefixes of the parameters and of the values of the block at hand
};

void addTrain(const GptConfig& config, Module& module) {
  Item* func = module.add(ItemKind::func, "train");
  Type ids = Type::tensor(DType::i32, {config.batch, config.block});
  Value* tokens = func->body.addArg(ids, "tokens");
  Value* targets = func->body.addArg(ids, "targets");
  for (Value* rows : {tokens, targets}) rows->attrs = {{"dims", dimsAttr({"batch", "time"})}};
  Forward forward(config, module, *func, config.batch);
  TensorExpr logits = forward.logits(tokens);
  Builder& builder = forward.builder();
  builder.setHint("loss");
  Value* loss = builder.op(Opcode::cross_entropy, {logits.value, targets});
  builder.op(Opcode::return_, {loss});
  func->results = {{"loss", loss->type}};
}

void addPredict(const GptConfig& config, Module& module) {
  Item* func = module.add(ItemKind::func, "predict");
  Value* tokens = func->body.addArg(Type::tensor(DType::i32, {1, config.block}), "tokens");
  tokens->attrs = {{"dims", dimsAttr({"", "time"})}};
  Forward forward(config, module, *func, 1);
  TensorExpr logits = forward.logits(tokens);
  forward.builder().op(Opcode::return_, {logits.value});
  func->results = {{"logits", logits.value->type}};
}

}  // namespace

/// Products of two are no overflow.
constexpr int64_t kMostOfASize = int64_t{1} << 30;
constexpr int64_t kMostLayers = 1000;  ///< a module of 86,000 lines

Result<std::unique_ptr<Module>> makeGpt(const GptConfig& config) {
  struct Size {
    const char* name;
    int64_t given, most = kMostOfASize;
  };
  for (const auto& [name, given, most] :
       {Size{"vocab", config.vocab}, Size{"block", config.block}, Size{"layers", config.layers, kMostLayers},
        Size{"heads", config.heads}, Size{"width", config.width}, Size{"batch", config.batch}})
    if (given < 1 || given > most) return fail(fmt::format("{} is {}, not 1 to {}", name, given, most));
  if (config.width % config.heads)
    return fail(fmt::format("the width {} is not a multiple of {} heads", config.width, config.heads));
  if (config.activation != "relu" && config.activation != "gelu")
    return fail(fmt::format("the activation is relu or gelu, not '{}'", config.activation));
  if (config.mixing != "softmax" && config.mixing != "attention")
    return fail(fmt::format("heads mix by softmax or attention, not '{}'", config.mixing));
  auto module = std::make_unique<Module>();
  module->name = "gpt";
  if (!config.trainPipeline.empty()) module->attrs = {{"train_pipeline", Attr::string(config.trainPipeline)}};
  declare(config, *module);
  addTrain(config, *module);
  addPredict(config, *module);
  TG_CHECK(verify(*module));
  return module;
}

}  // namespace tg
