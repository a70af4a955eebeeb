# SPDX-License-Identifier: Apache-2.0
"""same_tensors.py A B [close]: the tensors that two safetensors files share have the same bytes, or are close; the
others, sums of gradients, are zero."""
import json
import math
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {name: data[slice(*each["data_offsets"])] for name, each in header.items() if name != "__metadata__"}


def floats(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


one, other = tensors(sys.argv[1]), tensors(sys.argv[2])
both = one.keys() & other.keys()
assert both, "no tensor is in both"
for name in both:
    if "close" in sys.argv:
        assert all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(floats(one[name]), floats(other[name]))), name
    else:
        assert one[name] == other[name], name
for name in one.keys() ^ other.keys():
    assert not any((one | other)[name]), name
print(f"{len(both)} tensors are the same")
