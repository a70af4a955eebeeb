# SPDX-License-Identifier: Apache-2.0
"""Compares tg-run inspect --json of a checkpoint with figures computed here: tensor_figures.py CHECKPOINT
Or writes a small file with odd values: tensor_figures.py --write FILE"""
import json
import math
import struct
import subprocess
import sys


def read(path):
    data = open(path, "rb").read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    formats = {"F32": "f", "I32": "i"}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, entry, struct.unpack(f"<{(end - begin) // 4}{formats[entry['dtype']]}", data[8 + size + begin:8 + size + end])


def write(path):
    parts = {"broken": ("F32", [4], struct.pack("<4f", -1, math.nan, 3, -math.inf)),
             "brain": ("BF16", [2], struct.pack("<2H", 0x3f00, 0x3fc0)),
             "long": ("I64", [1, 2], struct.pack("<2q", -3, 5)),
             "wide": ("F64", [3], struct.pack("<3d", 1e300, -1e300, 1.5))}
    header, body = {"__metadata__": {"made by": "hand"}}, b""
    for name, (dtype, shape, data) in parts.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)


if sys.argv[1] == "--write":
    write(sys.argv[2])
    sys.exit()
done = subprocess.run(["tg-run", "inspect", sys.argv[1], "--json"], capture_output=True, text=True, check=True)
facts, = json.loads(done.stdout)["inspected"]
count = 0
for member, file in (("params", "model.safetensors"), ("states", "optim.safetensors")):
    said = {tensor["name"]: tensor for tensor in facts[member]}
    for name, entry, values in read(f"{sys.argv[1]}/{file}"):
        tensor = said.pop(name)
        mean = math.fsum(values) / len(values)
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        assert (tensor["dtype"], tensor["shape"], tensor["bytes"]) == (entry["dtype"], entry["shape"], 4 * len(values))
        assert (tensor["min"], tensor["max"], tensor["non_finite"]) == (min(values), max(values), 0)
        assert math.isclose(tensor["mean"], mean, rel_tol=1e-12, abs_tol=1e-300), (tensor, mean)
        assert math.isclose(tensor["std"], std, rel_tol=1e-9, abs_tol=1e-12), (tensor, std)
        count += 1
    assert not said
print(f"{count} tensors, all figures agree")
