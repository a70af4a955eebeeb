# SPDX-License-Identifier: Apache-2.0
"""spoil.py A.npy ROW COLUMN VALUE B.npy: a 64x2 array of f32 with one other value."""
import struct
import sys

source, row, column, value, target = sys.argv[1:]
data = bytearray(open(source, "rb").read())
struct.pack_into("<f", data, len(data) - (64 - int(row)) * 8 + int(column) * 4, float(value))
open(target, "wb").write(data)
