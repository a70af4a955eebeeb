// SPDX-License-Identifier: Apache-2.0
// Gradient cases through random ops with a fixed key, of rms_norm, rope and of cross_entropy's options.
#include <fmt/format.h>

#include "test/unit/grad_cases.h"

namespace tg::test {

static const CaseInput kKey{"2xi32", 5, 9};

void addRandomGradCases(std::vector<GradCase>& out) {
  for (const char* p : {"0.0", "0.3", "0.8"})
    out.push_back({Opcode::dropout,
                   fmt::format("%r0 = tg.dropout %a, %b {{p = {}, salt = 3}} : tensor<3x5xf32>", p),
                   {{"3x5xf32"}, kKey},
                   {"3x5xf32"}});
  // What is dropped of a square is its gradient too: the mask of the way back is that of the way there.
  out.push_back({Opcode::dropout,
                 "%s = tg.square %a : tensor<13xf32>\n"
                 "    %d = tg.dropout %s, %b {p = 0.5, salt = 1} : tensor<13xf32>\n"
                 "    %r0 = tg.square %d : tensor<13xf32>",
                 {{"13xf32"}, kKey},
                 {"13xf32"}});
  // mean + e^logvar·z, as a variational autoencoder draws.
  out.push_back({Opcode::exp,
                 "%z = tg.random_normal %c {salt = 2} : tensor<2x3xf32>\n"
                 "    %e = tg.exp %b : tensor<2x3xf32>\n"
                 "    %n = tg.mul %e, %z : tensor<2x3xf32>\n"
                 "    %r0 = tg.add %a, %n : tensor<2x3xf32>",
                 {{"2x3xf32"}, {"2x3xf32", -1, 1}, kKey},
                 {"2x3xf32"}});
  for (const char* eps : {"", " {eps = 0.5}"}) {
    out.push_back({Opcode::rms_norm,
                   fmt::format("%r0 = tg.rms_norm %a, %b{} : tensor<3x4xf32>", eps),
                   {{"3x4xf32"}, {"4xf32"}},
                   {"3x4xf32"}});
    out.push_back(
        {Opcode::rms_norm_grad,
         fmt::format("%r0, %r1 = tg.rms_norm_grad %a, %b, %c{} : tensor<3x4xf32>, tensor<3x1xf32>", eps),
         {{"3x4xf32"}, {"4xf32"}, {"3x4xf32"}},
         {"3x4xf32", "3x1xf32"}});
  }
  out.push_back({Opcode::rms_norm,
                 "%r0 = tg.rms_norm %a, %b : tensor<2x2x4xf32>",
                 {{"2x2x4xf32"}, {"4xf32"}},
                 {"2x2x4xf32"}});
  for (const char* attrs : {"", " {base = 20.0, offset = 3}", " {inverse = true}"})
    out.push_back({Opcode::rope,
                   fmt::format("%r0, %r1 = tg.rope %a, %b{} : tensor<2x3x4xf32>, tensor<3x4xf32>", attrs),
                   {{"2x3x4xf32"}, {"3x4xf32"}},
                   {"2x3x4xf32", "3x4xf32"}});
  // Only one of the pair is used.
  for (const char* kept : {"q", "k"})
    out.push_back({Opcode::rope,
                   fmt::format("%q, %k = tg.rope %a, %a : tensor<3x2xf32>, tensor<3x2xf32>\n"
                               "    %r0 = tg.square %{} : tensor<3x2xf32>",
                               kept),
                   {{"3x2xf32"}},
                   {"3x2xf32"}});
  for (const char* options :
       {"ignore_index = -1", "label_smoothing = 0.2", "ignore_index = 1, label_smoothing = 0.4"}) {
    for (const char* reduction : {"mean", "sum", "none"}) {
      const char* type = std::string_view(reduction) == "none" ? "6xf32" : "f32";
      out.push_back({Opcode::cross_entropy,
                     fmt::format("%r0 = tg.cross_entropy %a, %b {{reduction = {}, {}}} : tensor<{}>",
                                 reduction, options, type),
                     {{"6x3xf32"}, {"6xi32", -1, 3}},
                     {type}});
    }
    // Every row ignored by the first and the last form.
    out.push_back({Opcode::cross_entropy,
                   fmt::format("%r0 = tg.cross_entropy %a, %b {{{}}} : tensor<f32>", options),
                   {{"3x3xf32"}, {"3xi32", options[15] == '-' ? -1.0 : 1.0, options[15] == '-' ? -1.0 : 1.0}},
                   {"f32"}});
    for (const char* dy : {"f32", "6xf32"})
      out.push_back({Opcode::cross_entropy_grad,
                     fmt::format("%r0 = tg.cross_entropy_grad %a, %b, %c {{{}}} : tensor<6x3xf32>", options),
                     {{"6x3xf32"}, {"6xi32", -1, 3}, {dy}},
                     {"6x3xf32"}});
  }
}

}  // namespace tg::test
