#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training steps of whole models with PyTorch's, on the same GPU.

    tools/bench_models.py [--bin DIR] [--only REGEX] [--write DIR] [--steps N] [--precision f32|bf16]

A model is written twice: as a module's text, and in PyTorch with its own layers. Both have the same shapes, batch and
optimizer (Adam). tg-run profile measures the device's time in a step, PyTorch replays a CUDA graph of its step. With
bf16, the module is compiled with mixed-precision, and PyTorch runs under autocast, convolutions with channels last.
Without PyTorch and CUDA only our column is measured.
"""
import os
import re
import sys

from bench_ops import cuda, ours, parser_of, tensor
from bench_torch import INVERTED, theirs


class Text:
    """Collects a module's text. A value is its name and its shape."""

    def __init__(self):
        self.params, self.inputs, self.body, self.count, self.salts = [], [], [], 0, 0

    def name(self, prefix):
        self.count += 1
        return f"%{prefix}{self.count}"

    def param(self, shape, init="randn(0.02)"):
        name = self.name("p")
        self.params.append(f"  param @{name[1:]} : {tensor(shape)} {{init = {init}}}")
        self.body.append(f"{name} = tg.param @{name[1:]} : {tensor(shape)}")
        return name, list(shape)

    def input(self, name, shape, dtype="f32"):
        self.inputs.append(f"%{name}: {tensor(shape, dtype)}")
        return f"%{name}", list(shape)

    def op(self, op, operands, shape=None, attrs=""):
        shape = operands[0][1] if shape is None else shape
        result = self.name("v")
        names = ", ".join(operand[0] for operand in operands)
        self.body.append(f"{result} = tg.{op} {names} {attrs} : {tensor(shape)}")
        return result, list(shape)

    def module(self, loss):
        lines = ["module @model {", *self.params, f"  func @train({', '.join(self.inputs)}) -> (loss: tensor<f32>) {{"]
        lines += ["    " + line for line in self.body]
        return "\n".join(lines + [f"    return {loss[0]} : tensor<f32>", "  }", "}", ""])

    # Layers.

    def reshape(self, x, shape):
        return self.op("reshape", [x], shape, f"{{shape = {list(shape)}}}")

    def transpose(self, x, perm):
        return self.op("transpose", [x], [x[1][axis] for axis in perm], f"{{perm = {perm}}}")

    def slice(self, x, axis, start, end):
        starts, limits, shape = [0] * len(x[1]), list(x[1]), list(x[1])
        starts[axis], limits[axis], shape[axis] = start, end, end - start
        return self.op("slice", [x], shape, f"{{starts = {starts}, limits = {limits}}}")

    def add(self, x, y):
        return self.op("add", [x, y])

    def relu6(self, x):
        return self.op("clamp", [x], attrs="{lo = 0.0, hi = 6.0}")

    def dropout(self, x, p, rng):
        self.salts += 1
        return self.op("dropout", [x, rng], attrs=f"{{p = {p}, salt = {self.salts}}}")

    def constant(self, value, shape):
        name = self.name("c")
        self.body.append(f"{name} = tg.constant {value} : {tensor(shape)}")
        return name, list(shape)

    def conv_transpose(self, x, outputs, kernel=4, stride=2, padding=1):
        n, channels, height, width = x[1]
        weights = self.param([channels, outputs, kernel, kernel])
        shape = [n, outputs] + [(extent - 1) * stride - 2 * padding + kernel for extent in (height, width)]
        attrs = f"{{stride = [{stride}, {stride}], padding = [{padding}, {padding}]}}"
        return self.op("conv_transpose2d", [x, weights], shape, attrs)

    def conv(self, x, outputs, kernel, stride=1, padding=None, bias=True, groups=1):
        n, channels, height, width = x[1]
        pad = kernel // 2 if padding is None else padding
        weights = self.param([outputs, channels // groups, kernel, kernel], "kaiming")
        shape = [n, outputs] + [(extent + 2 * pad - kernel) // stride + 1 for extent in (height, width)]
        attrs = f"{{stride = [{stride}, {stride}], padding = [{pad}, {pad}], groups = {groups}}}"
        y = self.op("conv2d", [x, weights], shape, attrs)
        return self.add(y, self.param([outputs, 1, 1], "zeros")) if bias else y

    def standardized(self, x, shape, axes):
        """(x - mean)/sqrt(variance + 1e-5) over some axes of x, seen with another shape."""
        seen = self.reshape(x, shape)
        few = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
        attrs = f"{{axes = {axes}, keepdims = true}}"
        centred = self.op("sub", [seen, self.op("mean", [seen], few, attrs)])
        variance = self.op("mean", [self.op("square", [centred])], few, attrs)
        small = self.name("e")
        self.body.append(f"{small} = tg.constant 1e-5 : tensor<f32>")
        scale = self.op("rsqrt", [self.add(variance, (small, []))])
        return self.reshape(self.op("mul", [centred, scale]), x[1])

    def scaled(self, x, shape):
        return self.add(self.op("mul", [x, self.param(shape, "ones")]), self.param(shape, "zeros"))

    def batch_norm(self, x):
        return self.scaled(self.standardized(x, x[1], [0, 2, 3]), [x[1][1], 1, 1])

    def group_norm(self, x, groups=8):
        n, channels, height, width = x[1]
        shape = [n, groups, channels // groups * height * width]
        return self.scaled(self.standardized(x, shape, [2]), [channels, 1, 1])

    def linear(self, x, outputs, bias=True):
        y = self.op("matmul", [x, self.param([x[1][-1], outputs])], x[1][:-1] + [outputs])
        return self.add(y, self.param([outputs], "zeros")) if bias else y

    def layer_norm(self, x):
        return self.op("layer_norm", [x, self.param(x[1][-1:], "ones"), self.param(x[1][-1:], "zeros")])

    def rms_norm(self, x):
        return self.op("rms_norm", [x, self.param(x[1][-1:], "ones")])

    def heads(self, x, count):
        batch, time, width = x[1]
        return self.transpose(self.reshape(x, [batch, time, count, width // count]), [0, 2, 1, 3])

    def attention(self, q, k, v, causal):
        result, batch, heads, time, width = self.name("v"), *q[1]
        types = f"{tensor(q[1])}, {tensor(q[1][:-1])}"
        attrs = f"{{causal = {str(causal).lower()}}}"
        self.body.append(f"{result}, {self.name('l')} = tg.attention {q[0]}, {k[0]}, {v[0]} {attrs} : {types}")
        return self.reshape(self.transpose((result, q[1]), [0, 2, 1, 3]), [batch, time, heads * width])

    def classes(self, x, labels, count):
        return self.module(self.op("cross_entropy", [self.linear(x, count), labels], []))


def resnet18(batch=32):
    m = Text()
    x, labels = m.input("x", [batch, 3, 224, 224]), m.input("y", [batch], "i32")
    h = m.op("relu", [m.batch_norm(m.conv(x, 64, 7, 2, bias=False))])
    attrs = "{kernel = [3, 3], stride = [2, 2], padding = [1, 1]}"
    h = m.op("max_pool2d", [h], [batch, 64, 56, 56], attrs)
    for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        z = m.op("relu", [m.batch_norm(m.conv(h, channels, 3, stride, bias=False))])
        z = m.batch_norm(m.conv(z, channels, 3, bias=False))
        skip = m.batch_norm(m.conv(h, channels, 1, 2, bias=False)) if stride == 2 else h
        h = m.op("relu", [m.add(z, skip)])
    return m.classes(m.op("mean", [h], [batch, 512], "{axes = [2, 3]}"), labels, 1000)


def vit(batch=64, width=384, heads=6, layers=12):
    m = Text()
    x, labels = m.input("x", [batch, 3, 224, 224]), m.input("y", [batch], "i32")
    h = m.transpose(m.reshape(m.conv(x, width, 16, 16, 0), [batch, width, 196]), [0, 2, 1])
    first = m.op("broadcast_to", [m.param([1, 1, width])], [batch, 1, width], f"{{shape = [{batch}, 1, {width}]}}")
    h = m.op("concat", [first, h], [batch, 197, width], "{axis = 1}")
    h = m.add(h, m.param([197, width]))
    for _ in range(layers):
        qkv = m.linear(m.layer_norm(h), 3 * width)
        q, k, v = (m.heads(m.slice(qkv, 2, i * width, (i + 1) * width), heads) for i in range(3))
        h = m.add(h, m.linear(m.attention(q, k, v, False), width))
        z = m.op("gelu", [m.linear(m.layer_norm(h), 4 * width)])
        h = m.add(h, m.linear(z, width))
    return m.classes(m.reshape(m.slice(m.layer_norm(h), 1, 0, 1), [batch, width]), labels, 1000)


def convnext(batch=32):
    m = Text()
    x, labels = m.input("x", [batch, 3, 224, 224]), m.input("y", [batch], "i32")
    last, first = [0, 2, 3, 1], [0, 3, 1, 2]
    h = m.transpose(m.layer_norm(m.transpose(m.conv(x, 96, 4, 4, 0), last)), first)
    for stage, (width, depth) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if stage:
            h = m.conv(m.transpose(m.layer_norm(m.transpose(h, last)), first), width, 2, 2, 0)
        for _ in range(depth):
            z = m.layer_norm(m.transpose(m.conv(h, width, 7, groups=width), last))
            z = m.linear(m.op("gelu", [m.linear(z, 4 * width)]), width)
            h = m.add(h, m.transpose(m.op("mul", [z, m.param([width], "ones")]), first))
    return m.classes(m.layer_norm(m.op("mean", [h], [batch, 768], "{axes = [2, 3]}")), labels, 1000)


def unet(batch=32, size=64):
    m = Text()
    x, target = m.input("x", [batch, 3, size, size]), m.input("y", [batch, 3, size, size])

    def block(h, channels):
        z = m.conv(m.op("silu", [m.group_norm(h)]), channels, 3)
        z = m.conv(m.op("silu", [m.group_norm(z)]), channels, 3)
        return m.add(z, h if h[1][1] == channels else m.conv(h, channels, 1))

    h, skips = m.conv(x, 64, 3), []
    for channels in (64, 128, 256):
        h = block(block(h, channels), channels)
        skips.append(h)
        h = m.conv(h, channels, 3, 2)
    h = block(block(h, 256), 256)
    for channels in (256, 128, 64):
        n, c, height, width = h[1]
        h = m.op("upsample_nearest2d", [h], [n, c, 2 * height, 2 * width], "{scale = [2, 2]}")
        h, skip = m.conv(h, channels, 3), skips.pop()
        h = m.op("concat", [h, skip], [n, channels + skip[1][1], *h[1][2:]], "{axis = 1}")
        h = block(block(h, channels), channels)
    off = m.op("sub", [m.conv(m.op("silu", [m.group_norm(h)]), 3, 3), target])
    return m.module(m.op("mean", [m.op("square", [off])], [], "{axes = [0, 1, 2, 3]}"))


def llama(batch=8, time=1024, width=768, heads=12, groups=4, layers=12, vocab=32000, inner=2048):
    m = Text()
    x, targets = m.input("x", [batch, time], "i32"), m.input("y", [batch, time], "i32")
    h, size = m.op("embedding", [m.param([vocab, width]), x], [batch, time, width]), width // heads

    def repeated(z):
        shape = [batch, groups, heads // groups, time, size]
        z = m.op("broadcast_to", [m.reshape(z, [batch, groups, 1, time, size])], shape, f"{{shape = {shape}}}")
        return m.reshape(z, [batch, heads, time, size])

    for _ in range(layers):
        n = m.rms_norm(h)
        q = m.heads(m.linear(n, width, False), heads)
        k, v = (m.heads(m.linear(n, groups * size, False), groups) for _ in range(2))
        turned = m.name("v"), m.name("v")
        m.body.append(f"{turned[0]}, {turned[1]} = tg.rope {q[0]}, {k[0]} : {tensor(q[1])}, {tensor(k[1])}")
        mixed = m.attention((turned[0], q[1]), repeated((turned[1], k[1])), repeated(v), True)
        h = m.add(h, m.linear(mixed, width, False))
        n = m.rms_norm(h)
        gate = m.op("silu", [m.linear(n, inner, False)])
        h = m.add(h, m.linear(m.op("mul", [gate, m.linear(n, inner, False)]), width, False))
    return m.module(m.op("cross_entropy", [m.linear(m.rms_norm(h), vocab, False), targets], []))


def lstm(batch=64, time=64, width=256, vocab=65):
    m = Text()
    x, targets = m.input("x", [batch, time], "i32"), m.input("y", [batch, time], "i32")
    wide = [batch, 4 * width]
    read = m.linear(m.op("embedding", [m.param([vocab, width]), x], [batch, time, width]), 4 * width)
    weights, hidden, cell, outputs = m.param([width, 4 * width]), None, None, []
    for t in range(time):
        gates = m.reshape(m.slice(read, 1, t, t + 1), wide)
        if hidden:
            gates = m.add(gates, m.op("matmul", [hidden, weights], wide))
        i, f, o, z = (m.slice(gates, 1, k * width, (k + 1) * width) for k in range(4))
        i, f, o = (m.op("sigmoid", [gate]) for gate in (i, f, o))
        new = m.op("mul", [i, m.op("tanh", [z])])
        cell = m.add(m.op("mul", [f, cell]), new) if cell else new
        hidden = m.op("mul", [o, m.op("tanh", [cell])])
        outputs.append(hidden)
    logits = m.linear(m.op("stack", outputs, [batch, time, width], "{axis = 1}"), vocab)
    return m.module(m.op("cross_entropy", [logits, targets], []))


def gru(batch=64, time=64, width=256, vocab=65):
    m = Text()
    x, targets = m.input("x", [batch, time], "i32"), m.input("y", [batch, time], "i32")
    wide = [batch, 3 * width]
    read = m.linear(m.op("embedding", [m.param([vocab, width]), x], [batch, time, width]), 3 * width)
    weights, bias, outputs = m.param([width, 3 * width]), m.param([3 * width], "zeros"), []
    hidden = m.constant(0.0, [batch, width])
    for t in range(time):
        given = m.reshape(m.slice(read, 1, t, t + 1), wide)
        kept = m.add(m.op("matmul", [hidden, weights], wide), bias)
        a, b = ([m.slice(both, 1, k * width, (k + 1) * width) for k in range(3)] for both in (given, kept))
        r, z = (m.op("sigmoid", [m.add(a[k], b[k])]) for k in range(2))
        new = m.op("tanh", [m.add(a[2], m.op("mul", [r, b[2]]))])
        hidden = m.add(new, m.op("mul", [z, m.op("sub", [hidden, new])]))
        outputs.append(hidden)
    logits = m.linear(m.op("stack", outputs, [batch, time, width], "{axis = 1}"), vocab)
    return m.module(m.op("cross_entropy", [logits, targets], []))


def mobilenet(batch=32):
    m = Text()
    x, labels = m.input("x", [batch, 3, 224, 224]), m.input("y", [batch], "i32")
    h, before = m.relu6(m.batch_norm(m.conv(x, 32, 3, 2, bias=False))), 32
    for times, width, depth, first in INVERTED:
        for stride in [first] + [1] * (depth - 1):
            z, inner = h, before * times
            if times > 1:
                z = m.relu6(m.batch_norm(m.conv(z, inner, 1, bias=False)))
            z = m.relu6(m.batch_norm(m.conv(z, inner, 3, stride, bias=False, groups=inner)))
            z = m.batch_norm(m.conv(z, width, 1, bias=False))
            h, before = (m.add(h, z) if stride == 1 and before == width else z), width
    h = m.relu6(m.batch_norm(m.conv(h, 1280, 1, bias=False)))
    return m.classes(m.op("mean", [h], [batch, 1280], "{axes = [2, 3]}"), labels, 1000)


def dcgan(batch=128):
    """The convolutions of a DCGAN's discriminator and generator, as an auto-encoder."""
    m = Text()
    x = h = m.input("x", [batch, 3, 64, 64])
    target = m.input("y", [batch, 3, 64, 64])
    for width in (64, 128, 256, 512):
        h = m.conv(h, width, 4, 2, 1, bias=False)
        h = m.op("leaky_relu", [m.batch_norm(h) if width > 64 else h], attrs="{slope = 0.2}")
    h = m.op("relu", [m.batch_norm(m.conv_transpose(m.conv(h, 100, 4, 1, 0, bias=False), 512, 4, 1, 0))])
    for width in (256, 128, 64):
        h = m.op("relu", [m.batch_norm(m.conv_transpose(h, width))])
    off = m.op("sub", [m.op("tanh", [m.conv_transpose(h, 3)]), target])
    return m.module(m.op("mean", [m.op("square", [off])], [], "{axes = [0, 1, 2, 3]}"))


def bert(batch=16, time=512, width=768, heads=12, layers=12, vocab=30522, p=0.1):
    m = Text()
    x, targets = m.input("x", [batch, time], "i32"), m.input("y", [batch, time], "i32")
    mask, rng = m.input("mask", [batch, 1, 1, time]), ("%rng", [2])
    m.inputs.append('%rng: tensor<2xi32> {host = "rng"}')
    h = m.add(m.op("embedding", [m.param([vocab, width]), x], [batch, time, width]), m.param([time, width]))
    h, scale = m.dropout(m.layer_norm(h), p, rng), m.constant((width // heads) ** -0.5, [])
    for _ in range(layers):
        q, k, v = (m.heads(m.linear(h, width), heads) for _ in range(3))
        scores = m.op("matmul", [q, k], [batch, heads, time, time], "{transpose_b = true}")
        a = m.dropout(m.op("softmax", [m.add(m.op("mul", [scores, scale]), mask)]), p, rng)
        z = m.transpose(m.op("matmul", [a, v], q[1]), [0, 2, 1, 3])
        h = m.layer_norm(m.add(h, m.dropout(m.linear(m.reshape(z, h[1]), width), p, rng)))
        z = m.linear(m.op("gelu", [m.linear(h, 4 * width)]), width)
        h = m.layer_norm(m.add(h, m.dropout(z, p, rng)))
    h = m.layer_norm(m.op("gelu", [m.linear(h, width)]))
    return m.module(m.op("cross_entropy", [m.linear(h, vocab), targets], []))


TEXTS = {
    "resnet18, 32 of 224x224": resnet18,
    "vit-s, 64 of 224x224": vit,
    "convnext-t, 32 of 224x224": convnext,
    "unet, 32 of 64x64": unet,
    "llama 110M, 8 x 1024": llama,
    "lstm 256, 64 x 64": lstm,
    "gru 256, 64 x 64": gru,
    "mobilenet v2, 32 of 224x224": mobilenet,
    "dcgan, 128 of 64x64": dcgan,
    "bert base, 16 x 512": bert,
}


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--write", help="write the modules to this folder, and measure nothing")
    options = parser.parse_args()
    chosen = {name: make for name, make in TEXTS.items() if re.search(options.only, name)}
    if options.write:
        for name, make in chosen.items():
            with open(os.path.join(options.write, name.split()[0].strip(",") + ".tgir"), "w", encoding="utf-8") as file:
                file.write(make())
        return 0
    torch = cuda("bench_models")
    print("| model | ours, ms | PyTorch, ms | ratio | PyTorch, MB |\n|---|---:|---:|---:|---:|")
    failed = 0
    for name, make in chosen.items():
        mine = ours(os.path.join(options.bin, "tg-run"), make(), options, "append-adam")
        other, peak = theirs(torch, name, options.precision != "f32") if torch else (None, None)
        failed += mine is None
        columns = [
            f"{mine:.2f}" if mine else "failed",
            f"{other:.2f}" if other else "",
            f"{other / mine:.2f}" if mine and other else "",
            f"{peak:.0f}" if peak else "",
        ]
        print("|", name, "|", " | ".join(columns), "|", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
