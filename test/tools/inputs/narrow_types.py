# SPDX-License-Identifier: Apache-2.0
"""narrow_types.py TG_RUN FOLDER DEVICES: f16 and bf16 against conversions written here.

Every bit pattern is read from npy, cast and written back by the interpreter and, where DEVICES is `cpu`, by kernels:
for the device as it is, which stores 16 bits, and for one without 16-bit storage. Then files: BF16 and F16 tensors that
are written here are read, trained on and saved. Python's struct converts f16, integers convert bf16.
"""
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys

import misuse_files

# Odd, so that the last element stands alone in its word, and all patterns with one more.
COUNT = 65537
MODULE = f"""module @casts {{
  func @f(%h: tensor<{COUNT}xf16>, %b: tensor<{COUNT}xbf16>, %x: tensor<{COUNT}xf32>)
      -> (hv: tensor<{COUNT}xf32>, bv: tensor<{COUNT}xf32>, xh: tensor<{COUNT}xf16>, xb: tensor<{COUNT}xbf16>,
          hb: tensor<{COUNT}xbf16>, bh: tensor<{COUNT}xf16>, turned: tensor<{COUNT}xbf16>) {{
    %hv = tg.cast %h : tensor<{COUNT}xf32>
    %bv = tg.cast %b : tensor<{COUNT}xf32>
    %xh = tg.cast %x : tensor<{COUNT}xf16>
    %xb = tg.cast %x : tensor<{COUNT}xbf16>
    %hb = tg.cast %h : tensor<{COUNT}xbf16>
    %bh = tg.cast %b : tensor<{COUNT}xf16>
    %turned = tg.flip %b {{axes = [0]}} : tensor<{COUNT}xbf16>
    return %hv, %bv, %xh, %xb, %hb, %bh, %turned : tensor<{COUNT}xf32>, tensor<{COUNT}xf32>, tensor<{COUNT}xf16>,
      tensor<{COUNT}xbf16>, tensor<{COUNT}xbf16>, tensor<{COUNT}xf16>, tensor<{COUNT}xbf16>
  }}
}}
"""
TRAINED = """module @trained {
  param @w : tensor<2x3xTYPE> {init = randn(0.5)}
  param @b : tensor<3xTYPE> {init = zeros}
  func @train(%x: tensor<8x2xTYPE>, %y: tensor<8x3xf32>) -> (loss: tensor<f32>) {
    %w = tg.param @w : tensor<2x3xTYPE>
    %b = tg.param @b : tensor<3xTYPE>
    %p = tg.matmul %x, %w : tensor<8x3xTYPE>
    %z = tg.add %p, %b : tensor<8x3xTYPE>
    %z32 = tg.cast %z : tensor<8x3xf32>
    %d = tg.sub %z32, %y : tensor<8x3xf32>
    %s = tg.square %d : tensor<8x3xf32>
    %loss = tg.mean %s {axes = [0, 1]} : tensor<f32>
    tg.capture %z {name = "z"}
    return %loss : tensor<f32>
  }
  func @predict() -> (w: tensor<2x3xTYPE>, b: tensor<3xTYPE>) {
    %w = tg.param @w : tensor<2x3xTYPE>
    %b = tg.param @b : tensor<3xTYPE>
    return %w, %b : tensor<2x3xTYPE>, tensor<3xTYPE>
  }
}
"""
DESCR = {"f16": "<f2", "bf16": "<V2", "f32": "<f4"}


def npy(dtype, shape, content):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (DESCR[dtype], tuple(shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def fromNpy(path, dtype):
    whole = open(path, "rb").read()
    length, = struct.unpack_from("<H", whole, 8)
    header = whole[10:10 + length].decode()
    assert f"'{DESCR[dtype]}'" in header, header
    return whole[10 + length:]


def words(content, letter):
    return [value for value, in struct.iter_unpack("<" + letter, content)]


def f32Bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def value32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f16Value(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def toF16(value):
    """Bits of the nearest f16. struct refuses what rounds to infinity."""
    if math.isnan(value):
        return 0x7E00
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0xFC00 if value < 0 else 0x7C00


def toBf16(bits):
    """Bits of the bf16 nearest to an f32 of these bits: the half above, one more from beyond the middle on."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FC0
    above, rest = bits >> 16, bits & 0xFFFF
    return above + (rest > 0x8000 or (rest == 0x8000 and above & 1))


def same(got, want, infinity):
    """Equal bits, or NaN both."""
    rest = (1 << (15 if infinity < 1 << 16 else 31)) - 1
    return got == want or (got & rest > infinity and want & rest > infinity)


def check(what, got, want, infinity):
    wrong = [i for i in range(COUNT) if not same(got[i], want[i], infinity)]
    assert not wrong, (what, len(wrong), [(i, hex(got[i]), hex(want[i])) for i in wrong[:5]])


def casts(run, folder, flags):
    patterns = [i & 0xFFFF for i in range(COUNT)]
    # Between neighbours of both types: their middle, and just beside it.
    floats = []
    for i in range(COUNT):
        if i % 2:
            middle = (i >> 1 << 17 | 0x8000) + (0, 1, -1, 0x10000, 0x10001)[i // 2 % 5]
            floats.append(middle & 0xFFFFFFFF)
        else:
            low, high = f16Value(i >> 1), f16Value(min((i >> 1) + 1, 0x7BFF))
            middle = f32Bits((low + high) / 2 * (-1) ** (i // 2))
            floats.append((middle + (0, 1, -1)[i // 2 % 3]) & 0xFFFFFFFF if middle & 0x7FFFFFFF else 0)
    # What is below the smallest normal f32 may be flushed by a device.
    floats = [bits if bits & 0x7F800000 else 0 for bits in floats]
    halves = struct.pack(f"<{COUNT}H", *patterns)
    misuse_files.write(folder, "h.npy", npy("f16", (COUNT,), halves))
    misuse_files.write(folder, "b.npy", npy("bf16", (COUNT,), halves))
    misuse_files.write(folder, "x.npy", npy("f32", (COUNT,), struct.pack(f"<{COUNT}I", *floats)))
    misuse_files.write(folder, "casts.tgir", MODULE)
    outputs = {"hv": "f32", "bv": "f32", "xh": "f16", "xb": "bf16", "hb": "bf16", "bh": "f16", "turned": "bf16"}
    run("exec", "casts.tgir", *flags, "--input=h=@h.npy", "--input=b=@b.npy", "--input=x=@x.npy",
        *(f"--output={name}=@{name}.npy" for name in outputs))
    got = {name: words(fromNpy(f"{folder}/{name}.npy", dtype), "I" if dtype == "f32" else "H")
           for name, dtype in outputs.items()}
    f16s = [f32Bits(f16Value(bits)) for bits in patterns]
    check("f16 to f32", got["hv"], f16s, 0x7F800000)
    check("bf16 to f32", got["bv"], [bits << 16 for bits in patterns], 0x7F800000)
    check("f32 to f16", got["xh"], [toF16(value32(bits)) for bits in floats], 0x7C00)
    check("f32 to bf16", got["xb"], [toBf16(bits) for bits in floats], 0x7F80)
    check("f16 to bf16", got["hb"], [toBf16(bits) for bits in f16s], 0x7F80)
    check("bf16 to f16", got["bh"], [toF16(value32(bits << 16)) for bits in patterns], 0x7C00)
    check("views", got["turned"], patterns[::-1], 0x7F80)


def fromSafetensors(path):
    whole = open(path, "rb").read()
    length, = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8:8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {name: (entry["dtype"], whole[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items()}


def files(run, folder, dtype, flags):
    encode = (lambda value: toBf16(f32Bits(value))) if dtype == "bf16" else toF16
    decode = (lambda bits: value32(bits << 16)) if dtype == "bf16" else f16Value
    spelled = dtype.upper()
    misuse_files.write(folder, "t.tgir", TRAINED.replace("TYPE", dtype))
    # From every type of file: what has more digits is rounded.
    w, b = [0.1, -1.75, 3.14159, 1e-3, 100.3, -0.0], [0.5, 0.25, -8]
    narrow = {name: struct.pack(f"<{len(values)}H", *map(encode, values)) for name, values in (("w", w), ("b", b))}
    misuse_files.write(folder, "own.safetensors", misuse_files.safetensors(
        {"w": (spelled, [2, 3], narrow["w"]), "b": (spelled, [3], narrow["b"])}))
    misuse_files.write(folder, "wide.safetensors", misuse_files.safetensors(
        {"w": ("F32", [2, 3], struct.pack("<6f", *w)), "b": ("F64", [3], struct.pack("<3d", *b))}))
    for weights in ("own", "wide"):
        run("exec", "t.tgir", "--entry=predict", *flags, f"--weights={weights}.safetensors", "--output=w=@w.npy",
            "--output=b=@b.npy")
        for name in narrow:
            assert fromNpy(f"{folder}/{name}.npy", dtype) == narrow[name], (weights, name)
    # A step of rate 0 saves what was read; others learn.
    data = ["--data=x=@tx.npy,y=@ty.npy", "--run-dir=none"]
    rows = [((i * 5 % 8) / 4 - 1, (i * 3 % 8) / 4 - 1) for i in range(8)]
    goal = [(a + b, a - b, 0.5 - a) for a, b in rows]
    misuse_files.write(folder, "tx.npy", npy(dtype, (8, 2), struct.pack("<16H", *(encode(v) for r in rows for v in r))))
    misuse_files.write(folder, "ty.npy", npy("f32", (8, 3), struct.pack("<24f", *(v for r in goal for v in r))))
    run("train", "t.tgir", *flags, *data, "--pipeline=append-grad,append-adam{lr=0}", "--steps=1",
        "--init-from=own.safetensors", "--out=kept.safetensors")
    kept = fromSafetensors(f"{folder}/kept.safetensors")
    assert kept == {name: (spelled, content) for name, content in narrow.items()}, kept
    for optimizer in ("append-adam{lr=0.03,weight-decay=0.001,clip-norm=1}", "append-sgd{lr=0.2,momentum=0.5}"):
        said = run("train", "t.tgir", *flags, *data, f"--pipeline=append-grad,{optimizer}", "--steps=150",
                   "--seed=3", "--log-every=149", "--out=t.safetensors")
        losses = [float(text) for text in re.findall(r"^step .* loss ([0-9.e-]+)", said, re.M)]
        assert losses[-1] < 0.002 < 0.1 < losses[0], (optimizer, losses)
        learned = words(fromSafetensors(f"{folder}/t.safetensors")["w"][1], "H")
        want = [1, 1, -1, 1, -1, 0]
        assert all(abs(decode(bits) - value) < 0.05 for bits, value in zip(learned, want)), learned


BUNDLED = """module @m {
  param @w : tensor<3x3xbf16> {init = zeros}
  func @predict(%x: tensor<3x3xbf16>) -> (y: tensor<3x3xbf16>, h: tensor<5xf16>) {
    %w = tg.param @w : tensor<3x3xbf16>
    %p = tg.matmul %x, %w : tensor<3x3xbf16>
    %y = tg.exp %p : tensor<3x3xbf16>
    %f = tg.reshape %x {shape = [9]} : tensor<9xbf16>
    %s = tg.slice %f {starts = [1], limits = [6]} : tensor<5xbf16>
    %h = tg.cast %s : tensor<5xf16>
    return %y, %h : tensor<3x3xbf16>, tensor<5xf16>
  }
}
"""


compiled = []  # the texts that the program `example` was compiled from


def bundle(run, folder, flags):
    """An exported program, for the target or else the device, gives what exec gives; all extents are odd."""
    values = [0.5, -1, 2, 0.25, 1.5, -0.125, 0.75, 3, -2]
    bits = struct.pack("<9H", *(toBf16(f32Bits(value)) for value in values))
    misuse_files.write(folder, "m.tgir", BUNDLED)
    misuse_files.write(folder, "x.bin", bits)
    misuse_files.write(folder, "bx.npy", npy("bf16", (3, 3), bits))
    misuse_files.write(folder, "m.safetensors", misuse_files.safetensors(
        {"w": ("F32", [3, 3], struct.pack("<9f", *values))}))
    shutil.rmtree(f"{folder}/bundle", ignore_errors=True)
    run("export", "m.tgir", flags[-1], "--weights=m.safetensors", "-o", "bundle")
    # Every bundle has the same loader.
    sources = ["bundle/example.cpp", "bundle/tensorgrad_bundle.cpp", "bundle/tensorgrad_bundle.h"]
    texts = [open(f"{folder}/{source}", encoding="utf-8").read() for source in sources]
    if compiled != texts:
        subprocess.run(["c++", "-std=c++17", *sources[:2], "-ldl", "-o", "example"], cwd=folder, check=True)
        compiled[:] = texts
    subprocess.run(["./example", "bundle", "--device=cpu", "--out=.", "x.bin"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    run("exec", "m.tgir", *flags, "--weights=m.safetensors", "--input=x=@bx.npy", "--output=y=@y.npy",
        "--output=h=@h.npy")
    for name, dtype in (("y", "bf16"), ("h", "f16")):
        assert open(f"{folder}/{name}.bin", "rb").read() == fromNpy(f"{folder}/{name}.npy", dtype), name
    halves = struct.pack("<5e", *values[1:6])
    assert open(f"{folder}/h.bin", "rb").read() == halves


def main():
    tg_run, folder, devices = sys.argv[1:4]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

    def run(*command):
        done = subprocess.run([tg_run, *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    runs = [["--device=interp"]]
    if devices == "cpu":
        runs += [["--device=cpu"], ["--device=cpu", "--target=vulkan-min"]]
    for flags in runs:
        casts(run, folder, flags)
        for dtype in ("f16", "bf16"):
            files(run, folder, dtype, flags)
        if flags != ["--device=interp"]:
            bundle(run, folder, flags)
    print(f"every pattern cast and every file read {len(runs)} times")


main()
