# SPDX-License-Identifier: Apache-2.0
"""truncations.py TOOL FILE SCRATCH: every prefix of FILE that lacks its end fails with one located error.

Prefixes that end inside the trailing whitespace are the whole module and are left out.
"""
import random
import re
import subprocess
import sys

tool, source, scratch = sys.argv[1:]
with open(source, "rb") as file:
    text = file.read().rstrip()
random.seed(7)
for length in sorted(random.sample(range(1, len(text)), 60)) + [len(text) - 1]:
    with open(scratch, "wb") as file:
        file.write(text[:length])
    ran = subprocess.run([tool, scratch], capture_output=True, text=True, timeout=20)
    errors = re.findall(r"^.+:\d+:\d+: error: .+$", ran.stderr, re.MULTILINE)
    if ran.returncode != 1 or ran.stdout or len(errors) != 1:
        sys.exit(f"{length} bytes: exit code {ran.returncode}, {len(errors)} located errors:\n{ran.stderr}")
