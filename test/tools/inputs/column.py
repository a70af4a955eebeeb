# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers given to a .npy of rank 1: column.py FILE NUMBER..."""
import pathlib
import struct
import sys

numbers = [float(word) for word in sys.argv[2:]]
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(numbers)
header += " " * (-(len(header) + 11) % 64) + "\n"
start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
pathlib.Path(sys.argv[1]).write_bytes(start + struct.pack(f"<{len(numbers)}f", *numbers))
