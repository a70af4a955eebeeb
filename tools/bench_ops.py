#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of single ops with PyTorch's: forward, backward and a step of SGD, on the same GPU.

    tools/bench_ops.py [--bin DIR] [--only REGEX] [--list] [--steps N] [--precision f32|bf16]

A case is a module of one op, whose loss is the sum of the squares of its result. tg-run profile measures the device's
time in a call. For PyTorch, this script parses the same module text and replays a CUDA graph of the same work. The
table has milliseconds, and PyTorch's time divided by ours. Without PyTorch and CUDA only our column is measured. With
bf16, parameters stay f32: the module is compiled with mixed-precision, and PyTorch runs under autocast.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile


def tensor(shape, dtype="f32"):
    return "tensor<" + "".join(f"{extent}x" for extent in shape) + dtype + ">"


class Cases:
    """Collects the cases: module texts by name."""

    def __init__(self):
        self.modules = {}

    def add(self, name, params, lines, shape, ids=None, loss=None):
        """`lines` compute %r of `shape` from `params` and the integer inputs `ids`. `loss`, if given, computes %loss."""
        ids = ids or {}
        text = ["module @ops {"]
        text += [f"  param @{p} : {tensor(s)} {{init = randn(0.5)}}" for p, s in params.items()]
        arguments = ", ".join(f"%{i}: {tensor(s, 'i32')}" for i, s in ids.items())
        text.append(f"  func @train({arguments}) -> (loss: tensor<f32>) {{")
        body = [f"%{p} = tg.param @{p} : {tensor(s)}" for p, s in params.items()] + lines
        if loss:
            body.append(loss)
        else:
            body.append(f"%squares = tg.square %r : {tensor(shape)}")
            body.append(f"%loss = tg.sum %squares {{axes = {list(range(len(shape)))}}} : tensor<f32>")
        text += ["    " + line for line in body] + ["    return %loss : tensor<f32>", "  }", "}", ""]
        self.modules[name] = "\n".join(text)

    def one(self, name, op, shape, result, attrs=""):
        self.add(name, {"x": shape}, [f"%r = tg.{op} %x {attrs} : {tensor(result)}"], result)

    def matmul(self, name, m, k, n, batch=()):
        a, b, r = [*batch, m, k], [*batch, k, n], [*batch, m, n]
        self.add(name, {"a": a, "b": b}, [f"%r = tg.matmul %a, %b : {tensor(r)}"], r)

    def conv(self, name, n, channels, size, outputs, kernel, stride=1, padding=0, groups=1):
        x, w = [n, channels, size, size], [outputs, channels // groups, kernel, kernel]
        out = (size + 2 * padding - kernel) // stride + 1
        attrs = f"{{stride = [{stride}, {stride}], padding = [{padding}, {padding}], groups = {groups}}}"
        r = [n, outputs, out, out]
        self.add(name, {"x": x, "w": w}, [f"%r = tg.conv2d %x, %w {attrs} : {tensor(r)}"], r)

    def norm(self, name, rows, width):
        x, by = [rows, width], ", %g, %b" if name.startswith("layer") else ", %g"
        params = {"x": x, "g": [width], "b": [width]} if "b" in by else {"x": x, "g": [width]}
        op = name.split()[0]
        self.add(name, params, [f"%n = tg.{op} %x{by} : {tensor(x)}", f"%r = tg.tanh %n : {tensor(x)}"], x)

    def standardized(self, name, shape, axes):
        """Normalises over some axes, as batch, group and instance norm do."""
        few = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
        lines = [
            f"%m = tg.mean %x {{axes = {axes}, keepdims = true}} : {tensor(few)}",
            f"%d = tg.sub %x, %m : {tensor(shape)}",
            f"%q = tg.square %d : {tensor(shape)}",
            f"%v = tg.mean %q {{axes = {axes}, keepdims = true}} : {tensor(few)}",
            f"%s = tg.sqrt %v : {tensor(few)}",
            f"%n = tg.div %d, %s : {tensor(shape)}",
            f"%r = tg.mul %n, %g : {tensor(shape)}",
        ]
        self.add(name, {"x": shape, "g": few}, lines, shape)

    def attention(self, name, heads, queries, keys, width, causal):
        q, k, word = [heads, queries, width], [heads, keys, width], "true" if causal else "false"
        line = f"%r, %l = tg.attention %q, %k, %v {{causal = {word}}} : {tensor(q)}, {tensor([heads, queries])}"
        self.add(name, {"q": q, "k": k, "v": k}, [line], q)


def cases():
    c = Cases()
    for size in (512, 1021, 2048, 4096):
        c.matmul(f"matmul {size}", size, size, size)
    c.matmul("matmul 8192x768x3072", 8192, 768, 3072)
    c.matmul("matmul 65536x64x64", 65536, 64, 64)
    c.matmul("matmul 1x4096x4096", 1, 4096, 4096)
    c.matmul("matmul 32x4096x4096", 32, 4096, 4096)
    c.matmul("matmul 8x4096x4096", 8, 4096, 4096)
    c.matmul("matmul 4096x768x10", 4096, 768, 10)
    c.matmul("matmul 512 of 128", 128, 128, 128, [512])
    c.matmul("matmul dot 4M", 1, 1 << 22, 1)
    c.conv("conv2d 3x3 64, 32 of 56x56", 32, 64, 56, 64, 3, padding=1)
    c.conv("conv2d 3x3 128, 32 of 28x28", 32, 128, 28, 128, 3, padding=1)
    c.conv("conv2d 3x3 256, 32 of 14x14", 32, 256, 14, 256, 3, padding=1)
    c.conv("conv2d 3x3 512, 32 of 7x7", 32, 512, 7, 512, 3, padding=1)
    c.conv("conv2d 1x1 256-64, 32 of 56x56", 32, 256, 56, 64, 1)
    c.conv("conv2d 7x7/2 3-64, 32 of 224x224", 32, 3, 224, 64, 7, stride=2, padding=3)
    c.conv("conv2d 16x16/16 3-768, 32 of 224x224", 32, 3, 224, 768, 16, stride=16)
    c.conv("conv2d depthwise 7x7 96, 32 of 56x56", 32, 96, 56, 96, 7, padding=3, groups=96)
    c.conv("conv2d depthwise 3x3 144, 32 of 56x56", 32, 144, 56, 144, 3, padding=1, groups=144)
    c.conv("conv2d 3x3 256 in 32 groups, 32 of 28x28", 32, 256, 28, 256, 3, padding=1, groups=32)
    c.attention("attention causal 96 x 1024 x 64", 96, 1024, 1024, 64, True)
    c.attention("attention causal 16 x 4096 x 64", 16, 4096, 4096, 64, True)
    c.attention("attention causal 32 x 2048 x 128", 32, 2048, 2048, 128, True)
    c.attention("attention 64 x 197 x 64", 64, 197, 197, 64, False)
    c.attention("attention of 1 query, 8 x 8192 x 64", 8, 1, 8192, 64, False)
    c.norm("layer_norm 8192x768", 8192, 768)
    c.norm("rms_norm 8192x768", 8192, 768)
    c.norm("layer_norm 65536x64", 65536, 64)
    c.norm("layer_norm 1x4M", 1, 1 << 22)
    c.standardized("batch norm 32x64x56x56", [32, 64, 56, 56], [0, 2, 3])
    c.standardized("batch norm 128x512x4x4", [128, 512, 4, 4], [0, 2, 3])
    c.standardized("group norm 8x32x65536", [8, 32, 65536], [2])
    for op in ("sum", "max_reduce", "logsumexp"):
        c.one(f"{op} of 4M", op, [1 << 22], [], "{axes = [0]}")
        c.one(f"{op} of rows of 8192x1024", op, [8192, 1024], [8192], "{axes = [1]}")
        c.one(f"{op} of columns of 8192x1024", op, [8192, 1024], [1024], "{axes = [0]}")
        c.one(f"{op} over axes 0, 2 of 64x2x32768", op, [64, 2, 32768], [2], "{axes = [0, 2]}")
    c.one("softmax 8192x1024", "softmax", [8192, 1024], [8192, 1024], "{axis = -1}")
    c.one("softmax 8x524288", "softmax", [8, 1 << 19], [8, 1 << 19], "{axis = -1}")
    c.one("softmax along axis 1 of 64x4096x16", "softmax", [64, 4096, 16], [64, 4096, 16], "{axis = 1}")
    c.one("cumsum of rows of 2048x2048", "cumsum", [2048, 2048], [2048, 2048], "{axis = 1}")
    c.one("cumsum of 1M", "cumsum", [1 << 20], [1 << 20], "{axis = 0}")
    for n, classes in ((64, 10), (4096, 1000), (16384, 65), (4, 1 << 20)):
        loss = "%loss = tg.cross_entropy %x, %i : tensor<f32>"
        c.add(f"cross_entropy {n}x{classes}", {"x": [n, classes]}, [], [], {"i": [n]}, loss)
    for rows, width, ids in ((50257, 768, 8192), (65, 384, 16384), (255, 64, 100003), (1 << 20, 64, 4096)):
        line = f"%r = tg.embedding %w, %i : {tensor([ids, width])}"
        c.add(f"embedding {rows}x{width}, {ids} ids", {"w": [rows, width]}, [line], [ids, width], {"i": [ids]})
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (7, 1, 3)):
        out = (112 + 2 * padding - kernel) // stride + 1
        attrs = f"{{kernel = [{kernel}, {kernel}], stride = [{stride}, {stride}], padding = [{padding}, {padding}]}}"
        shape, result = [32, 64, 112, 112], [32, 64, out, out]
        c.one(f"max_pool2d {kernel}x{kernel}/{stride}, 32 of 112x112", "max_pool2d", shape, result, attrs)
    attrs = "{kernel = [56, 56], stride = [56, 56], padding = [0, 0]}"
    c.one("avg_pool2d of all of 56x56", "avg_pool2d", [32, 256, 56, 56], [32, 256, 1, 1], attrs)
    c.one("gelu 16M", "gelu", [1 << 24], [1 << 24])
    c.one("transpose 4096x4096", "transpose", [4096, 4096], [4096, 4096], "{perm = [1, 0]}")
    c.one("transpose 8x1024x12x64", "transpose", [8, 1024, 12, 64], [8, 12, 1024, 64], "{perm = [0, 2, 1, 3]}")
    x = [8192, 3072]
    lines = [f"%h = tg.add %x, %b : {tensor(x)}", f"%r = tg.relu %h : {tensor(x)}"]
    c.add("bias and relu 8192x3072", {"x": x, "b": [3072]}, lines, x)
    return c.modules


def ours(tg_run, text, options, optimizer="append-sgd"):
    """The device's milliseconds in a call of our module; None on failure."""
    mixed = "" if options.precision == "f32" else f",mixed-precision{{precision={options.precision}}}"
    pipeline = f"append-grad{mixed},{optimizer}"
    with tempfile.NamedTemporaryFile("w", suffix=".tgir") as file:
        file.write(text)
        file.flush()
        command = [tg_run, "profile", file.name, "--function=train", f"--pipeline={pipeline}"]
        command += [f"--steps={options.steps}", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return json.loads(done.stdout)["device_ms"]


def cuda(program):
    """PyTorch, set to f32 without TF32; None, and a message, if it or CUDA is missing."""
    try:
        import torch  # pylint: disable=import-outside-toplevel

        if not torch.cuda.is_available():
            raise ImportError("no CUDA device")
    except ImportError as error:
        print(f"{program}: PyTorch is not measured: {error}", file=sys.stderr)
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def replayed(torch, step, warm_up=3):
    """Milliseconds of one replay of a step as a CUDA graph: the lowest mean of three series."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(warm_up):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def series(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / count

    series(3)
    count = max(3, min(300, int(100 / max(series(3), 1e-3))))
    return min(series(count) for _ in range(3))


class Torch:
    """Runs the modules' texts with PyTorch, in f32, or under autocast."""

    def __init__(self, torch, precision):
        self.torch = torch
        self.narrow = precision != "f32"

    @staticmethod
    def attributes(text):
        found = {}
        for name, value in re.findall(r"(\w+) = (\[[^\]]*\]|[-\w.]+)", text or ""):
            found[name] = value == "true" if value in ("true", "false") else json.loads(value)
        return found

    def op(self, name, x, a):
        t = self.torch
        f = t.nn.functional
        keep = a.get("keepdims", False)
        return {
            "matmul": lambda: x[0] @ x[1],
            "conv2d": lambda: f.conv2d(x[0], x[1], None, a["stride"], a["padding"], 1, a["groups"]),
            "attention": lambda: f.scaled_dot_product_attention(*[v[None] for v in x], is_causal=a["causal"])[0],
            "layer_norm": lambda: f.layer_norm(x[0], x[1].shape, x[1], x[2]),
            "rms_norm": lambda: f.rms_norm(x[0], x[1].shape, x[1]),
            "sum": lambda: x[0].sum(a["axes"], keepdim=keep),
            "mean": lambda: x[0].mean(a["axes"], keepdim=keep),
            "max_reduce": lambda: t.amax(x[0], a["axes"], keepdim=keep),
            "logsumexp": lambda: t.logsumexp(x[0], a["axes"], keepdim=keep),
            "softmax": lambda: f.softmax(x[0], a["axis"]),
            "cumsum": lambda: x[0].cumsum(a["axis"]),
            "cross_entropy": lambda: f.cross_entropy(x[0], x[1]),
            "embedding": lambda: f.embedding(x[1], x[0]),
            "max_pool2d": lambda: f.max_pool2d(x[0], a["kernel"], a["stride"], a["padding"]),
            "avg_pool2d": lambda: f.avg_pool2d(x[0], a["kernel"], a["stride"], a["padding"]),
            "gelu": lambda: f.gelu(x[0], approximate="tanh"),
            "relu": lambda: f.relu(x[0]),
            "transpose": lambda: x[0].permute(a["perm"]).contiguous(),
        }.get(name, lambda: getattr(t, name)(*x))()

    def step(self, text):
        """Parses a module and returns a function that runs one training step of it."""
        t = self.torch
        shape = lambda text: [int(extent) for extent in re.findall(r"(\d+)x", text)]
        params = {
            name: (t.randn(shape(type_), device="cuda") * 0.5).requires_grad_()
            for name, type_ in re.findall(r"param @(\w+) : tensor<(.*?)(?:f32)>", text)
        }
        # Ids must be valid rows of the embedding's table, or valid classes.
        extent = 1
        for kind, operand in re.findall(r"tg\.(embedding|cross_entropy) %(\w+)", text):
            extent = params[operand].shape[0 if kind == "embedding" else -1]
        values = {
            name: t.randint(0, extent, shape(type_), device="cuda")
            for name, type_ in re.findall(r"%(\w+): tensor<(.*?)i32>", text)
        }
        line = re.compile(r"^    %(\w+)[^=]* = tg\.(?!param)(\w+) ((?:%\w+(?:, )?)+) ?(\{.*?\})? : ", re.M)
        ops = [(r, op, re.findall(r"%(\w+)", x), self.attributes(a)) for r, op, x, a in line.findall(text)]

        def run():
            for param in params.values():
                param.grad = None
            at = {**params, **values}
            with t.autocast("cuda", t.bfloat16, enabled=self.narrow):
                for result, op, operands, attrs in ops:
                    at[result] = self.op(op, [at[x] for x in operands], attrs)
            at["loss"].backward()
            with t.no_grad():
                grads = [param.grad for param in params.values()]
                t._foreach_add_(list(params.values()), grads, alpha=-1e-3)
                t._foreach_norm(grads)

        return run


def parser_of(doc):
    """The options that bench_models.py has too, with the first line of `doc` as description."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", default=os.path.join(top, "build/release/bin"), help="the folder of tg-run")
    parser.add_argument("--only", default="", help="those whose names match")
    parser.add_argument("--steps", type=int, default=20, help="calls of each to time")
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"), help="what products multiply")
    return parser


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--list", action="store_true", help="name the cases and leave")
    options = parser.parse_args()
    chosen = {name: text for name, text in cases().items() if re.search(options.only, name)}
    if options.list:
        print("\n".join(chosen))
        return 0
    torch = cuda("bench_ops")
    peer = Torch(torch, options.precision) if torch else None
    print("| op | ours, ms | PyTorch, ms | ratio |\n|---|---:|---:|---:|")
    failed = 0
    for name, text in chosen.items():
        mine = ours(os.path.join(options.bin, "tg-run"), text, options)
        theirs = replayed(torch, peer.step(text)) if peer else None
        failed += mine is None
        ratio = f"{theirs / mine:.2f}" if mine and theirs else ""
        print("|", name, "|", f"{mine:.3f}" if mine else "failed", "|", f"{theirs:.3f}" if theirs else "", "|", ratio, "|")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
