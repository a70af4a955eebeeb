# SPDX-License-Identifier: Apache-2.0
"""Writes x.npy (64x2) and y.npy = x·[[-1, 0.5], [2, 3]], for a model that can fit them exactly."""
import pathlib
import struct
import sys


def npy(rows):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    flat = [value for row in rows for value in row]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(flat)}f", *flat)


x = [(((i * 37) % 64) / 32 - 1, ((i * 11) % 64) / 32 - 1) for i in range(64)]
y = [(-a + 2 * b, 0.5 * a + 3 * b) for a, b in x]
folder = pathlib.Path(sys.argv[1])
(folder / "x.npy").write_bytes(npy(x))
(folder / "y.npy").write_bytes(npy(y))
