# SPDX-License-Identifier: Apache-2.0
"""Files that tg-run is given wrongly: arrays, archives, texts, modules and runs, good ones beside broken ones."""
import gzip
import io
import json
import os
import shutil
import struct
import subprocess
import zipfile


def npy(descr, shape, data, fortran=False):
    """The bytes of a .npy file of version 1."""
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def floats(rows, columns):
    return npy("<f4", (rows, columns), struct.pack(f"<{rows * columns}f", *[i % 5 / 4 for i in range(rows * columns)]))


def archive(**members):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return whole.getvalue()


def safetensors(tensors, metadata=None, header=None):
    """tensors: name -> (dtype, shape, bytes)."""
    entries, data = {}, b""
    if metadata is not None:
        entries["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = (header if header is not None else json.dumps(entries)).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    return struct.pack("<Q", len(text)) + text + data


def arrays():
    idx = bytes([0, 0, 8, 2]) + struct.pack(">2i", 8, 2) + bytes(range(16))
    tokens = struct.pack("<256i", 20240520, 1, 40, *[0] * 253) + struct.pack("<40H", *[i % 9 for i in range(40)])
    params = {"w": ("F32", [2, 2], struct.pack("<4f", 1, 2, 3, 4))}
    return {
        "x.npy": floats(8, 2), "y.npy": floats(8, 2), "z.npy": floats(6, 2), "wide.npy": floats(8, 3),
        "other.npy": npy("<f4", (8, 2), b"\0" * 64), "few.npy": floats(3, 2),
        "ints.npy": npy("<i4", (8, 2), struct.pack("<16i", *range(16))),
        "complex.npy": npy("<c8", (8, 2), b"\0" * 128),
        "fortran.npy": npy("<f4", (8, 2), b"\0" * 64, fortran=True), "object.npy": npy("|O", (8, 2), b"\0" * 128),
        "big-endian.npy": npy(">f4", (8, 2), b"\0" * 64),
        "beyond.npy": npy("<f8", (2, 2), struct.pack("<4d", 1e300, 0, 0, 0)),
        "cut.npy": floats(8, 2)[:-8], "header.npy": floats(8, 2)[:40], "nothing.npy": b"", "text.npy": b"1, 2, 3\n",
        "d.npz": archive(x=floats(8, 2), y=floats(8, 2)), "cut.npz": archive(x=floats(8, 2))[:-30],
        "none.npz": archive(),
        "i-idx2-ubyte": idx, "bad-idx2-ubyte": b"\1\2" + idx[2:], "cut-idx2-ubyte": idx[:-3],
        "cut-idx2-ubyte.gz": gzip.compress(idx)[:-12], "no-idx2-ubyte.gz": b"no archive",
        "raw.bin": b"\0" * 61, "tokens.bin": tokens, "bad-tokens.bin": b"\0" * 2048, "cut-tokens.bin": tokens[:-10],
        "text": b"abcdefgh" * 40, "text2": b"hgfedcba" * 40, "wide": bytes(range(97, 117)) * 20, "short": b"abc",
        "empty": b"", "news": b"abcdXfgh" * 40, "latin": bytes(range(128, 148)) * 20,
        "good.safetensors": safetensors(params), "cut.safetensors": safetensors(params)[:-6],
        "shape.safetensors": safetensors({"w": ("F32", [2, 3], b"\0" * 24)}),
        "name.safetensors": safetensors({"v": ("F32", [2, 2], b"\0" * 16)}),
        "ints.safetensors": safetensors({"w": ("I32", [2, 2], b"\0" * 16)}),
        "beyond.safetensors": safetensors({"w": ("F64", [2, 2], struct.pack("<4d", 1, float("inf"), -1e300, 1e300))}),
        "more.safetensors": safetensors({**params, "v": ("F32", [2], b"\0" * 8)}),
        "json.safetensors": safetensors({}, header='{"w": '), "text.safetensors": b"no tensors in here",
        "huge.safetensors": struct.pack("<Q", 1 << 60) + b"{}",
        "overlap.safetensors": safetensors({}, header=json.dumps(
            {name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} for name in "wv"})) + b"\0" * 16,
    }


def texts(affine):
    """Modules and configurations; `affine` is the text of a good module."""
    return {
        "good.tgir": affine,
        "changed.tgir": affine.replace("module @", "module @not_"),
        "syntax.tgir": affine.replace("return", "retrun", 1),
        "cut.tgir": affine[:len(affine) // 2],
        "blank.tgir": "",
        "no-train.tgir": affine.replace("@train", "@learn"),
        "no-predict.tgir": affine.replace("@predict", "@foretell"),
        "no-functions.tgir": "module @m {\n  param @w : tensor<2xf32> {init = zeros}\n}\n",
        "unknown.toml": "steps=2\nstpes=3\n",
        "value.toml": 'steps="many"\n',
        "twice.toml": "steps=2\nseed=1\nsteps=3\n",
        "nul.toml": "steps=2\nseed=\0\n",
        "syntax.toml": '[[[\n=\n',
        "broken.json": '{"name": ', "numbers.json": '[{"model": "mlp", "device": 5}]',
        "none.results.json": "[]", "size.json": '{"name": "x", "bindings": 0}', "passes.toml": 'pipeline = "append-gard"\n',
        "field.json": '{"nmae": "x"}',
    }


def write(folder, name, content):
    with open(os.path.join(folder, name), "wb" if isinstance(content, bytes) else "w") as file:
        file.write(content)


def prepare(tg_run, affine, folder):
    """Fills the folder, which is made anew, with files and with runs."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, content in {**arrays(), **texts(open(affine).read())}.items():
        write(folder, name, content)
    write(folder, "binary.tgir", b"module @m {\xff\xfe\0}")
    write(folder, "utf8.tgir", b"module @m\xff {\n}\n")

    def made(command, into=None):
        out = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
        if into:
            write(folder, into, out)

    tools = os.path.dirname(shutil.which(tg_run) or tg_run)
    made([f"{tools}/gpt-gen", "--vocab=8", "--block=8", "--width=8", "--heads=1", "--layers=1", "--batch=2",
          "--pipeline=append-grad,append-adam{lr=0.01}"], "gpt.tgir")
    made([f"{tools}/tg-opt", "--fuse", "--plan", "--spirv-emit", "good.tgir"], "late.tgir")
    text = open(f"{folder}/late.tgir").read()
    write(folder, "limits.tgir", text.replace("max_invocations = ", "max_invocations = 99999999"))
    train = [tg_run, "train", "--device=interp", "--steps=4", "--ckpt-every=2"]
    adam = "--pipeline=append-grad,append-adam"
    made(train + ["good.tgir", adam, "--data=x=@x.npy,y=@y.npy", "--run-dir=run"])
    made(train + ["gpt.tgir", "--data=text:text", "--run-dir=spoken"])
    shutil.copytree(f"{folder}/run", f"{folder}/damaged")
    for step in os.listdir(f"{folder}/damaged/ckpt"):
        with open(f"{folder}/damaged/ckpt/{step}/model.safetensors", "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x55")
    shutil.copytree(f"{folder}/run/ckpt/step_00000004", f"{folder}/alone")
    shutil.copytree(f"{folder}/run", f"{folder}/metrics")
    write(folder, "metrics/metrics.jsonl", "no row\n{\n")
    os.mkdir(f"{folder}/folder")
    write(folder, "folder/file", "kept\n")
    os.mkdir(f"{folder}/locked")
    for name in ("closed.tgir", "closed.npy", "closed.safetensors"):
        shutil.copy(f"{folder}/good.tgir", f"{folder}/{name}")
        os.chmod(f"{folder}/{name}", 0)
    os.chmod(f"{folder}/locked", 0o555)
