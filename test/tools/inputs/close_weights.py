# SPDX-License-Identifier: Apache-2.0
"""close_weights.py A B: the f32 tensors of two safetensors files differ by rounding at most."""
import json
import math
import struct
import sys


def floats(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    names = sorted(name for name in header if name != "__metadata__")
    return [value for name in names
            for value in struct.unpack(f"<{(header[name]['data_offsets'][1] - header[name]['data_offsets'][0]) // 4}f",
                                       data[slice(*header[name]["data_offsets"])])]


one, other = floats(sys.argv[1]), floats(sys.argv[2])
assert one and len(one) == len(other)
for a, b in zip(one, other):
    assert math.isclose(a, b, rel_tol=1e-5), f"{a!r} and {b!r}"
print(f"{len(one)} values are close")
