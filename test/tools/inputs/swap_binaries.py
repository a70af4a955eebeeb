# SPDX-License-Identifier: Apache-2.0
"""Prints the module FIRST with the SPIR-V words of SECOND: swap_binaries.py FIRST SECOND

The kernels and their hashes stay those of FIRST, as if a driver had compiled them wrongly.
"""
import re
import sys

BINARY = re.compile(r'^(\s*binary @\S+ .*)"([^"]*)"\s*$')
first, second = (open(path).read().splitlines() for path in sys.argv[1:])
words = [found.group(2) for found in map(BINARY.match, second) if found]
for line in first:
    found = BINARY.match(line)
    print(f'{found.group(1)}"{words.pop(0)}"' if found else line)
