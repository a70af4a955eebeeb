// SPDX-License-Identifier: Apache-2.0
// The sweep's cases of attention and its gradients: fewer and more keys than queries, rows that see nothing,
// widths that four divides and does not, one query, one key, no and several leading axes, packed heads.
#include <fmt/format.h>

#include "test/unit/sweep_cases.h"
#include "test/unit/sweep_cases_support.h"

namespace tg::test {
namespace {

struct AttentionSizes {
  Shape lead;
  int64_t queries, keys, width, valueWidth;
  double scale = 0;

  Type at(std::initializer_list<int64_t> inner) const {
    Shape shape = lead;
    for (int64_t extent : inner) shape.push(extent);
    return Type::tensor(DType::f32, shape);
  }
  SweepInput q() const { return {at({queries, width}), -1, 1}; }
  SweepInput k() const { return {at({keys, width}), -1, 1}; }
  SweepInput v() const { return {at({keys, valueWidth})}; }
  SweepInput o() const { return {at({queries, valueWidth})}; }
  /// Around the true values, so that the weights e^(s - lse) are of the order of 1.
  SweepInput rows(double lo, double hi) const { return {at({queries}), lo, hi}; }
};

const std::vector<AttentionSizes> kAttentionSizes = {
    {{}, 5, 7, 4, 3},       {{}, 9, 6, 5, 4},       {{2}, 1, 6, 8, 4},       {{3}, 6, 1, 4, 4},
    {{}, 1, 1, 1, 1},       {{2, 3}, 8, 8, 8, 8},   {{2, 1, 2}, 7, 7, 6, 6}, {{}, 33, 70, 8, 12, 0.5},
    {{2}, 100, 70, 36, 36}, {{2, 2}, 10, 48, 4, 8}, {{4}, 36, 36, 12, 12},   {{2}, 40, 70, 32, 16},
    {{}, 70, 40, 48, 64},
};

std::vector<SweepInput> inputsOf(Opcode code, const AttentionSizes& size) {
  std::vector<SweepInput> inputs = {size.q(), size.k(), size.v()};
  if (code == Opcode::attention) return inputs;
  if (code == Opcode::attention_grad) inputs.push_back(size.o());
  inputs.push_back(size.rows(0.5, 3));
  if (code != Opcode::attention_grad) inputs.push_back(size.rows(-1, 1));
  inputs.push_back(size.o());
  return inputs;
}

void add(std::vector<SweepCase>& out, Opcode code, std::vector<SweepInput> inputs, const AttrList& attrs,
         const std::string& form) {
  std::string name(info(code).name.substr(3));
  for (const SweepInput& input : inputs) name += " " + input.type.str();
  for (const NamedAttr& attr : attrs) name += " " + attr.name + "=" + attr.value.str();
  out.push_back({code, name + form, std::move(inputs),
                 [=](Builder& b, const Values& in) { return allResults(b, code, in, attrs); }});
}

/// Heads of one packed projection [B, T, 3C], which is how a model reads them; the mixture joined again.
void addPacked(std::vector<SweepCase>& out, bool causal) {
  constexpr int64_t kBatch = 2, kTokens = 6, kHeads = 2, kWidth = 8;
  AttrList attrs = {{"causal", Attr::boolean(causal)}};
  auto build = [=](Builder& b, const Values& in) {
    Values heads;
    for (int64_t part = 0; part < 3; ++part) {
      Value* slice = b.op(Opcode::slice, {in[0]},
                          {{"starts", Attr::ints({0, 0, part * kWidth})},
                           {"limits", Attr::ints({kBatch, kTokens, (part + 1) * kWidth})}});
      heads.push_back(
          b.transpose(b.reshape(slice, {kBatch, kTokens, kHeads, kWidth / kHeads}), {0, 2, 1, 3}));
    }
    Op* op =
        b.create(Opcode::attention, {Operand::of(heads[0]), Operand::of(heads[1]), Operand::of(heads[2])},
                 attrs, {heads[0]->type});
    return Values{b.reshape(b.transpose(op->result(), {0, 2, 1, 3}), {kBatch, kTokens, kWidth})};
  };
  out.push_back({Opcode::attention,
                 fmt::format("attention of packed heads, causal={}, without lse", causal),
                 {{Type::tensor(DType::f32, {kBatch, kTokens, 3 * kWidth}), -1, 1}},
                 build});
}

}  // namespace

std::vector<SweepCase> attentionCases() {
  std::vector<SweepCase> out;
  for (Opcode code :
       {Opcode::attention, Opcode::attention_grad, Opcode::attention_grad_q, Opcode::attention_grad_kv})
    for (const AttentionSizes& size : kAttentionSizes)
      for (bool causal : {false, true}) {
        AttrList attrs = {{"causal", Attr::boolean(causal)}};
        if (size.scale != 0) attrs.push_back({"scale", Attr::of(size.scale)});
        std::vector<SweepInput> inputs = inputsOf(code, size);
        if (code == Opcode::attention_grad && causal) inputs.push_back(size.rows(-1, 1));
        add(out, code, std::move(inputs), attrs, "");
      }
  for (bool causal : {false, true}) addPacked(out, causal);
  // A bias, and a keep, for sizes whose keys are a multiple of 16.
  for (Opcode code : {Opcode::attention, Opcode::attention_grad_q, Opcode::attention_grad_kv})
    for (const AttentionSizes& size : kAttentionSizes) {
      if (size.keys % 16 != 0) continue;
      std::vector<SweepInput> inputs = inputsOf(code, size);
      inputs.push_back({Type::tensor(DType::f32, {1, size.keys}), -1, 1});
      add(out, code, inputs, {{"causal", Attr::boolean(true)}}, " bias");
      inputs.push_back({size.at({size.queries, size.keys / 16}), 0, 65535});
      add(out, code, inputs, {{"p", Attr::of(0.25)}}, " keep");
    }
  return out;
}

}  // namespace tg::test
