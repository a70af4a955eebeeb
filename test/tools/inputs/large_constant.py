# SPDX-License-Identifier: Apache-2.0
"""A module with 300 numbers: large_constant.py constant|param."""
import sys

numbers = ", ".join(str(i) for i in range(300))
param = sys.argv[1] == "param"
print(f"""module @numbers {{
  param @w : tensor<1x300xf32> {{init = ones}}
  {f"param @k : tensor<1x300xf32> {{init = dense<{numbers}>}}" if param else ""}
  func @train(%x: tensor<4x300xf32>) -> (loss: tensor<f32>) {{
    %w = tg.param @w : tensor<1x300xf32>
    {"%p = tg.param @k : tensor<1x300xf32>" if param else ""}
    %k = {"tg.stop_gradient %p" if param else f"tg.constant dense({numbers})"} : tensor<1x300xf32>
    %wk = tg.mul %w, %k : tensor<1x300xf32>
    %y = tg.mul %x, %wk : tensor<4x300xf32>
    %loss = tg.mean %y {{axes = [0, 1]}} : tensor<f32>
    return %loss : tensor<f32>
  }}
}}""")
