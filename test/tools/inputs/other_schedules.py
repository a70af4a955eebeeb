# SPDX-License-Identifier: Apache-2.0
"""other_schedules.py TUNE.json FILE: writes a tuning file that gives every kernel the last schedule that was timed."""
import json
import sys

kernels = json.load(open(sys.argv[1]))["kernels"]
assert kernels, "nothing was timed"
for kernel in kernels:
    assert all(0 < each["us"] <= each["median_us"] for each in kernel["schedules"]), kernel
    assert 2 <= len(kernel["schedules"]) <= 6 and kernel["best"] < len(kernel["schedules"]), kernel
lines = [f"  {kernel['key']} = {kernel['schedules'][-1]['schedule']}" for kernel in kernels]
open(sys.argv[2], "w").write("{\n" + ",\n".join(lines) + "\n}\n")
