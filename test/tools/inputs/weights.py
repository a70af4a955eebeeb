# SPDX-License-Identifier: Apache-2.0
"""Parameters of a safetensors file of f32, and whether two are the same. The interpreter computes in f64, which a
checkpoint rounds, so a run that is gone on with differs from one that was left alone in the last digit."""
import struct


def weights(path):
    data = open(path, "rb").read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


def close(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-6 * max(1, abs(x)) for x, y in zip(a, b))
