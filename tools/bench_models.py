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

from bench_ops import cuda, ours, parser_of, replayed, tensor


class Text:
    """Collects a module's text. A value is its name and its shape."""

    def __init__(self):
        self.params, self.inputs, self.body, self.count = [], [], [], 0

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


TEXTS = {
    "resnet18, 32 of 224x224": resnet18,
    "vit-s, 64 of 224x224": vit,
    "convnext-t, 32 of 224x224": convnext,
    "unet, 32 of 64x64": unet,
    "llama 110M, 8 x 1024": llama,
    "lstm 256, 64 x 64": lstm,
}


def torch_models(torch):
    """The same models in PyTorch: for each name a function that gives the module and its inputs."""
    nn, f = torch.nn, torch.nn.functional

    class Residual(nn.Module):
        """x + the branch of x, or the projected x."""

        def __init__(self, branch, skip=None, after=None):
            super().__init__()
            self.branch, self.skip, self.after = branch, skip or nn.Identity(), after or nn.Identity()

        def forward(self, x):
            return self.after(self.skip(x) + self.branch(x))

    class Turned(nn.Module):
        """A module that sees channels last."""

        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Scale(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x * self.gain

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(c, 2))
            return self.out(f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c))

    class Grouped(nn.Module):
        """Causal attention with fewer heads of keys and values, and rotated positions."""

        def __init__(self, width, heads, groups, time):
            super().__init__()
            size = width // heads
            self.size, self.qkv = size, nn.ModuleList(nn.Linear(width, n * size, False) for n in (heads, groups, groups))
            self.out = nn.Linear(width, width, bias=False)
            angles = torch.outer(torch.arange(time), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def turned(self, z):
            a, b = z.chunk(2, -1)
            return (z * self.cos + torch.cat([-b, a], -1) * self.sin).to(z.dtype)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (linear(x).view(b, t, -1, self.size).transpose(1, 2) for linear in self.qkv)
            y = f.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
            return self.out(y.transpose(1, 2).reshape(b, t, c))

    class Gated(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
            self.down = nn.Linear(inner, width, bias=False)

        def forward(self, x):
            return self.down(f.silu(self.gate(x)) * self.up(x))

    class Lambda(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    def classes(*layers):
        return nn.Sequential(*layers), f.cross_entropy

    def conv_norm(inputs, outputs, kernel, stride=1):
        return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)

    def torch_resnet18():
        layers, width = [*conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
            branch = nn.Sequential(
                *conv_norm(width, channels, 3, stride), nn.ReLU(), *conv_norm(channels, channels, 3)
            )
            skip = nn.Sequential(*conv_norm(width, channels, 1, 2)) if stride == 2 else None
            layers.append(Residual(branch, skip, nn.ReLU()))
            width = channels
        return classes(*layers, Lambda(lambda x: x.mean((2, 3))), nn.Linear(512, 1000))

    class Tokens(nn.Module):
        """A first token, and positions."""

        def __init__(self, width):
            super().__init__()
            self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.places = nn.Parameter(torch.randn(197, width) * 0.02)

        def forward(self, x):
            x = x.flatten(2).transpose(1, 2)
            return torch.cat([self.first.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.places

    def torch_vit(width=384):
        layers = [nn.Conv2d(3, width, 16, 16), Tokens(width)]
        for _ in range(12):
            mlp = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            layers.append(Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, 6))))
            layers.append(Residual(nn.Sequential(nn.LayerNorm(width), *mlp)))
        return classes(*layers, nn.LayerNorm(width), Lambda(lambda x: x[:, 0]), nn.Linear(width, 1000))

    def torch_convnext():
        layers, before = [nn.Conv2d(3, 96, 4, 4), Turned(nn.LayerNorm(96))], 96
        for stage, (width, depth) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
            if stage:
                layers += [Turned(nn.LayerNorm(before)), nn.Conv2d(before, width, 2, 2)]
            for _ in range(depth):
                mlp = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), Scale(width)
                depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
                layers.append(
                    Residual(nn.Sequential(depthwise, Turned(nn.Sequential(nn.LayerNorm(width), *mlp))))
                )
            before = width
        return classes(*layers, Lambda(lambda x: x.mean((2, 3))), nn.LayerNorm(768), nn.Linear(768, 1000))

    def block(inputs, outputs):
        branch = [nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, 1, 1)]
        branch += [nn.GroupNorm(8, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, 1, 1)]
        return Residual(nn.Sequential(*branch), nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.down, self.up = nn.Conv2d(3, 64, 3, 1, 1), nn.ModuleList(), nn.ModuleList()
            before = 64
            for width in (64, 128, 256):
                self.down.append(nn.Sequential(block(before, width), block(width, width)))
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                before = width
            self.middle = nn.Sequential(block(256, 256), block(256, 256))
            for width in (256, 128, 64):
                self.up.append(nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(before, width, 3, 1, 1)))
                self.up.append(nn.Sequential(block(2 * width, width), block(width, width)))
                before = width
            self.last = nn.Sequential(nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, 1, 1))

        def forward(self, x):
            h, skips = self.first(x), []
            for blocks, smaller in zip(self.down[::2], self.down[1::2]):
                skips.append(blocks(h))
                h = smaller(skips[-1])
            h = self.middle(h)
            for larger, blocks in zip(self.up[::2], self.up[1::2]):
                h = blocks(torch.cat([larger(h), skips.pop()], 1))
            return self.last(h)

    def tokens_loss(logits, targets):
        return f.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def torch_llama(width=768):
        layers = [nn.Embedding(32000, width)]
        for _ in range(12):
            layers.append(Residual(nn.Sequential(nn.RMSNorm(width), Grouped(width, 12, 4, 1024))))
            layers.append(Residual(nn.Sequential(nn.RMSNorm(width), Gated(width, 2048))))
        return nn.Sequential(*layers, nn.RMSNorm(width), nn.Linear(width, 32000, bias=False)), tokens_loss

    def torch_lstm(width=256):
        cells = nn.LSTM(width, width, batch_first=True)
        return nn.Sequential(nn.Embedding(65, width), cells, Lambda(lambda x: x[0]), nn.Linear(width, 65)), tokens_loss

    def images(batch, size=224):
        return torch.randn(batch, 3, size, size, device="cuda")

    def ids(count, *shape):
        return torch.randint(count, shape, device="cuda")

    return {
        "resnet18, 32 of 224x224": (torch_resnet18, lambda: (images(32), ids(1000, 32))),
        "vit-s, 64 of 224x224": (torch_vit, lambda: (images(64), ids(1000, 64))),
        "convnext-t, 32 of 224x224": (torch_convnext, lambda: (images(32), ids(1000, 32))),
        "unet, 32 of 64x64": (lambda: (UNet(), f.mse_loss), lambda: (images(32, 64), images(32, 64))),
        "llama 110M, 8 x 1024": (torch_llama, lambda: (ids(32000, 8, 1024), ids(32000, 8, 1024))),
        "lstm 256, 64 x 64": (torch_lstm, lambda: (ids(65, 64, 64), ids(65, 64, 64))),
    }


def theirs(torch, name, narrow):
    """Milliseconds of one replay of PyTorch's step, the lowest mean of three series, and the megabytes it allocated."""
    make, draw = torch_models(torch)[name]
    model, loss_of = make()
    model, (x, y) = model.to("cuda"), draw()
    if narrow and name.startswith(("resnet", "unet")):
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True, capturable=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow):
            result = model(x)
        loss_of(result.float(), y).backward()
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    milliseconds = replayed(torch, step)
    peak = torch.cuda.max_memory_allocated() / 1e6
    torch.cuda.empty_cache()
    return milliseconds, peak


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
