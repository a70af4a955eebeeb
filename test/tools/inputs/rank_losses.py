# SPDX-License-Identifier: Apache-2.0
"""rank_losses.py TOGETHER ALONE N: step s of the first run's metrics has the mean loss of steps (s-1)N+1 … sN of the
second's, rounded to f32."""
import json
import struct
import sys


def losses(path):
    rows = (json.loads(line) for line in open(path, encoding="utf-8"))
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


together, alone, ranks = losses(sys.argv[1]), losses(sys.argv[2]), int(sys.argv[3])
assert together, "no losses"
for step, loss in together.items():
    total = 0.0
    for part in range((step - 1) * ranks + 1, step * ranks + 1):
        total = f32(total + alone[part])
    assert f32(loss) == f32(total / ranks), f"step {step}: {loss!r}, not {total / ranks!r}"
print(f"{len(together)} losses are the same")
