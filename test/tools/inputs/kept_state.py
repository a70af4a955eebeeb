# SPDX-License-Identifier: Apache-2.0
"""kept_state.py FOLDER: a module whose @predict reads a param and a state, and files with its tensors: good ones with a
state that it does not read, ones without the state it reads, ones with a tensor more."""
import struct
import sys

from misuse_files import safetensors, write

folder = sys.argv[1]
write(folder, "kept.tgir", """module @kept {
  param @w : tensor<2xf32>
  param @other : tensor<2xf32>
  state @s : tensor<2xf32>
  state @t : tensor<2xf32>
  func @predict(%x: tensor<2xf32>) -> (y: tensor<2xf32>) {
    %w = tg.param @w : tensor<2xf32>
    %s = tg.state @s : tensor<2xf32>
    %p = tg.mul %x, %w : tensor<2xf32>
    %y = tg.add %p, %s : tensor<2xf32>
    return %y : tensor<2xf32>
  }
}
""")
pair = {name: ("F64", [2], struct.pack("<2d", at + 0.5, at + 1.5)) for name, at in (("w", 1), ("s", 3), ("t", 5))}
pair["other"] = ("F32", [2], b"\0" * 8)
write(folder, "kept.safetensors", safetensors(pair))
write(folder, "less.safetensors", safetensors({name: pair[name] for name in ("w", "other", "t")}))
write(folder, "more.safetensors", safetensors({**pair, "v": pair["w"]}))
