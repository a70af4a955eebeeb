# SPDX-License-Identifier: Apache-2.0
"""safetensors_check.py TG_RUN AFFINE FOLDER: reads what tg-run saves by the description of the safetensors format alone,
and has tg-run read files that are written here.

The format: 8 bytes, a little-endian length N; N bytes of JSON, which begin with '{' and may end with spaces:
{"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, "__metadata__": {"key": "text"}}; then the bytes
of the tensors, little-endian and by rows, in any order but without holes and overlaps, offsets from the end of the JSON.
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

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8,
         "I64": 8, "U64": 8}


def without_twins(pairs):
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), f"a name stands twice in {names}"
    return dict(pairs)


def read(path):
    """name -> (dtype, shape, bytes), and the metadata."""
    whole = open(path, "rb").read()
    length, = struct.unpack_from("<Q", whole)
    assert length <= 100_000_000 and 8 + length <= len(whole), (length, len(whole))
    text, data = whole[8:8 + length], whole[8 + length:]
    assert text.startswith(b"{") and text.rstrip(b" ").endswith(b"}"), text[-20:]
    assert (8 + length) % 8 == 0, "the tensors are not aligned"
    header = json.loads(text.decode("utf-8"), object_pairs_hook=without_twins)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(key, str) and isinstance(value, str) for key, value in metadata.items()), metadata
    tensors, ranges = {}, []
    for name, entry in header.items():
        assert set(entry) == {"dtype", "shape", "data_offsets"}, entry
        begin, end = entry["data_offsets"]
        assert all(isinstance(extent, int) and extent >= 0 for extent in entry["shape"]), entry
        assert end - begin == SIZES[entry["dtype"]] * math.prod(entry["shape"]), entry
        assert begin % SIZES[entry["dtype"]] == 0, f"{name} is not aligned: {entry}"
        ranges.append((begin, end))
        tensors[name] = entry["dtype"], entry["shape"], data[begin:end]
    at = 0
    for begin, end in sorted(ranges):
        assert begin == at, f"a hole or an overlap at {at}: {sorted(ranges)}"
        at = end
    assert at == len(data), f"{len(data) - at} bytes belong to no tensor"
    return tensors, metadata


def numbers(tensor):
    dtype, _, content = tensor
    return [value for value, in struct.iter_unpack({"F32": "<f", "I32": "<i"}[dtype], content)]


def bf16(value):
    """The upper half of an f32 that has no more digits."""
    bits, = struct.unpack("<I", struct.pack("<f", value))
    assert bits & 0xFFFF == 0, value
    return struct.pack("<H", bits >> 16)


def main():
    tg_run, affine, folder = sys.argv[1:4]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(affine, f"{folder}/m.tgir")

    def run(*command):
        done = subprocess.run([tg_run, *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def called(weights, *more, module="m.tgir"):
        """Results of @predict by name, as numbers."""
        out = run("exec", module, "--device=interp", f"--weights={weights}", *more)
        return {name: [float(value) for value in text.strip("[]").split(",")]
                for name, text in re.findall(r"^(\w+)=(?:\d+x)*[a-z]\w*=(.*)$", out, re.M)}

    # What a run saves.
    run("train", "m.tgir", "--device=interp", "--pipeline=append-grad,append-adam{lr=0.1}", "--data=x=rand(1),y=0",
        "--steps=5", "--seed=3", "--run-dir=run", "--out=out.safetensors")
    step = f"{folder}/run/ckpt/step_00000005"
    model, said = read(f"{step}/model.safetensors")
    states, _ = read(f"{step}/optim.safetensors")
    assert list(model) == ["w"] and model["w"][:2] == ("F32", [2, 2]), model
    assert said["format"] == "tensorgrad" and said["tensorgrad.step"] == "5" and said["tensorgrad.seed"] == "3", said
    text = open(f"{folder}/run/module.spirv.tgir").read()
    declared = dict(re.findall(r"^  state @(\S+) : tensor<(\S+)>", text, re.M))
    assert declared and set(states) == set(declared), (set(states), declared)
    for name, (dtype, shape, _) in states.items():
        assert "x".join(map(str, [*shape, dtype.lower()])) == declared[name], (name, dtype, shape, declared[name])
    assert read(f"{folder}/out.safetensors")[0] == model
    # Rows of the identity, times w, plus 1.
    w = numbers(model["w"])
    assert all(map(math.isfinite, w)) and w != [1, 2, 3, 4], w
    got = called("run", "--input=x=[1,0,0,1]")["y"]
    assert all(abs(a - 1 - b) < 1e-6 for a, b in zip(got, w)), (got, w)

    # What others write, in every type that holds these numbers.
    values = [1.5, -2.25, 96.0, 0.0078125]
    written = {"F32": struct.pack("<4f", *values), "F16": struct.pack("<4e", *values), "F64": struct.pack("<4d", *values),
               "BF16": b"".join(map(bf16, values))}
    for dtype, content in written.items():
        misuse_files.write(folder, f"{dtype}.safetensors", misuse_files.safetensors(
            {"w": (dtype, [2, 2], content)}, metadata={"format": "pt"}))
        got = called(f"{dtype}.safetensors", "--input=x=[1,0,0,1]")["y"]
        assert got == [value + 1 for value in values], (dtype, got)
        run("train", "m.tgir", "--device=interp", "--pipeline=append-grad,append-adam{lr=0}", "--data=x=1,y=0",
            "--steps=1", "--run-dir=none", f"--init-from={dtype}.safetensors", f"--out={dtype}.out.safetensors")
        again, _ = read(f"{folder}/{dtype}.out.safetensors")
        assert again["w"][:2] == ("F32", [2, 2]) and numbers(again["w"]) == values, (dtype, numbers(again["w"]))
    # Tensors in another order than their bytes, a header with spaces and escapes, and one without elements.
    entries = {"w": {"data_offsets": [8, 24], "shape": [2, 2], "dtype": "F32"},
               "i": {"data_offsets": [0, 8], "shape": [2], "dtype": "I32"}}
    ids = """module @m {
  param @i : tensor<2xi32> {init = zeros}
  param @w : tensor<2x2xf32> {init = zeros}
  func @predict() -> (i: tensor<2xi32>, w: tensor<2x2xf32>) {
    %i = tg.param @i : tensor<2xi32>
    %w = tg.param @w : tensor<2x2xf32>
    return %i, %w : tensor<2xi32>, tensor<2x2xf32>
  }
}
"""
    misuse_files.write(folder, "ids.tgir", ids)
    text = (json.dumps(entries, indent=1).replace('"w"', '"\\u0077"') + "   ").encode()
    misuse_files.write(folder, "ids.safetensors", struct.pack("<Q", len(text)) + text +
                       struct.pack("<2i4f", -7, 1 << 30, *values))
    assert called("ids.safetensors", module="ids.tgir") == {"i": [-7, 1 << 30], "w": values}
    misuse_files.write(folder, "wide.safetensors", misuse_files.safetensors(
        {"i": ("I64", [2], struct.pack("<2q", -7, 1 << 30)), "w": ("F32", [2, 2], written["F32"])}))
    assert called("wide.safetensors", module="ids.tgir") == {"i": [-7, 1 << 30], "w": values}
    print(f"{len(model) + len(states)} tensors saved, {len(written) + 2} files read")


main()
