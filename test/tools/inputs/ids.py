# SPDX-License-Identifier: Apache-2.0
"""ids.py FILE n …: the numbers as an i32 vector in .npy."""
import struct
import sys

ids = [int(word) for word in sys.argv[2:]]
header = ("{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }" % len(ids)).ljust(117) + "\n"
with open(sys.argv[1], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    out.write(struct.pack("<%di" % len(ids), *ids))
