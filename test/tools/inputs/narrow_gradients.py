# SPDX-License-Identifier: Apache-2.0
"""narrow_gradients.py ROOT TYPE: a module with a function for each op of the table that has a gradient: its example, of
TYPE instead of f32, and the gradients with respect to what it reads."""
import pathlib
import re
import sys

# Of f32 alone, or without a result of reals that a loss may depend on.
OTHERS = {"param", "grad", "random_uniform", "random_normal", "one_minus_pow", "one_hot", "adam_update", "sgd_update",
          "all_reduce", "reduce_scatter", "all_gather"}


def examples(root):
    for line in (pathlib.Path(root) / "ir/ops.def").read_text().splitlines():
        row = re.match(r'OP\((\w+), "tg\..*, "((?:[^"\\]|\\.)*)"\)\s*$', line)
        if row and row.group(2) and row.group(1) not in OTHERS:
            yield row.group(1), row.group(2).replace("\\n", "\n").replace('\\"', '"')


def function(name, example, dtype):
    """None where the example has no result of reals."""
    last = re.match(r"(%\w+(?:, %\w+)*) = .* : (.*)$", example.strip().split("\n")[-1])
    if not last:
        return None
    lines, sums = [], []
    for value, dims in zip(last.group(1).split(", "), re.findall(r"tensor<([^>]*)>", last.group(2))):
        *extents, element = dims.split("x")
        if element != "f32":
            continue
        sums.append(f"{value}_sum")
        axes = ", ".join(map(str, range(len(extents))))
        lines.append(f"{sums[-1]} = tg.sum {value} {{axes = [{axes}]}} : tensor<f32>")
    if not sums:
        return None
    total = sums[0]
    for count, each in enumerate(sums[1:]):
        lines.append(f"%total{count} = tg.add {total}, {each} : tensor<f32>")
        total = f"%total{count}"
    types = "tensor<2x4xf32>, tensor<4x3xf32>, tensor<4xf32>"
    body = "\n".join([example, *lines, f"%loss = tg.cast {total} : tensor<LOSS>",
                      f"%gx, %gw, %gb = tg.grad %loss, %x, %w, %b : {types}",
                      f"return %loss, %gx, %gw, %gb : tensor<LOSS>, {types}"])
    text = f"""func @{name}(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>,
    %i: tensor<2xi32>, %c: tensor<2x4xi1>, %s: tensor<f32>, %t: tensor<8x4xf32>, %p0: tensor<4x3xf32>)
    -> (loss: tensor<LOSS>, gx: tensor<2x4xf32>, gw: tensor<4x3xf32>, gb: tensor<4xf32>) {{
{body}
}}"""
    return text.replace("f32>", dtype + ">").replace("LOSS", "f32")


made = [text for name, example in examples(sys.argv[1]) if (text := function("of_" + name, example, sys.argv[2]))]
assert len(made) > 90, len(made)
state = f"state @q : tensor<{sys.argv[2]}>\n"
print("module @gradients {\n" + state + "\n".join(made) + "\n}")
