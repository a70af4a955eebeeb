# SPDX-License-Identifier: Apache-2.0
"""kernel_idioms.py: inputs of kernel-idioms.tgir and what its kernels give, as options of tg-run exec."""
import math


def shown(values):
    return "[" + ",".join(repr(value) for value in values) + "]"


def gelu(x):
    return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def escape(a, b):
    z, rounds = 0j, 0
    while rounds < 50 and abs(z) <= 2:
        z, rounds = z * z + complex(a, b), rounds + 1
    return rounds


def mixed(value):
    value &= 0xFFFFFFFF
    value = (value ^ value >> 16) * 0x7FEB352D & 0xFFFFFFFF
    value = (value ^ value >> 15) * 0x846CA68B & 0xFFFFFFFF
    return (value ^ value >> 16) & 0x7FFFFFFF


def main():
    # Eighths and the like are exact in f32, and no comparison of a kernel is a close one.
    x = [((37 * i) % 100 + 0.5) / 128 for i in range(100)]
    y = [((61 * i) % 100 - 49.5) / 64 for i in range(100)]
    m = [[((7 * r + 11 * c) % 32 - 16) / 8 for c in range(20)] for r in range(13)]
    n = [[((5 * r + 3 * c) % 16 - 8) / 8 for c in range(9)] for r in range(20)]
    s = [(i * i - 100) / 64 for i in range(64)]
    i = [2654435761 * k % 2**32 - 2**31 for k in range(100)]
    q = [-2.0, -1.5625, 0.0, 10.0, 60.453125, 60.5, 1.0]
    tops = [max(row) for row in m]
    exps = [[math.exp(v - top) for v in row] for row, top in zip(m, tops)]
    lanes = [x[k:k + 4] for k in range(0, 100, 4)]
    inputs = {"a": [0.75], "x": x, "y": y, "m": sum(m, []), "n": sum(n, []), "s": s, "i": i, "q": q}
    results = {
        "saxpy": [0.75 * u + v for u, v in zip(x, y)],
        "stencil": [sum(x[min(max(k + d, 0), 99)] for d in range(-2, 3)) / 5 for k in range(100)],
        "softmax": [e / sum(row) for row in exps for e in row],
        "histogram": [sum(int(8 * v) == b for v in x) for b in range(8)],
        "scan": [sum(s[:k + 1]) for k in range(64)],
        "matmul": [sum(m[r][k] * n[k][c] for k in range(20)) for r in range(13) for c in range(9)],
        "transpose": [m[r][c] for c in range(20) for r in range(13)],
        "dot": [sum(u * v for u, v in zip(x, y))],
        "bisect": [sum(v < each for v in s) for each in q],
        "mandelbrot": [escape(x[k], x[k + 1]) for k in range(0, 100, 2)],
        "newton": [math.sqrt(v) for v in x],
        "angles": [
            math.atan2(v, u - 0.4) + math.log1p(u * u) - math.expm1(-v) for u, v in zip(x, y)
        ],
        "fraction": [3 * v % 1 for v in x],
        "hash": [mixed(v) for v in i],
        "activate": [
            v for a, b, c, d in lanes for v in (gelu(a), gelu(2 * b), a * a + b * b + c * c + d * d, d)
        ],
        "rising": [int(k == 0 or (k < 99 and x[k + 1] > x[k])) for k in range(100)],
    }
    for name, values in inputs.items():
        print(f"--input={name}={shown(values)}")
    for name, values in results.items():
        print(f"--expected-output={name}={shown(values)}")


main()
