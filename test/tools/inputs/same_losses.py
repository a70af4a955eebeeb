# SPDX-License-Identifier: Apache-2.0
"""The losses that tg-run printed for a device and for the interpreter agree to three digits, and fall."""
import re
import sys

folder, names = sys.argv[1], sys.argv[2:]


def losses(path):
    text = open(path, encoding="utf-8").read()
    return [float(loss) for loss in re.findall(r"^step \d+/\d+ \| loss ([-0-9.e+]+)", text, re.MULTILINE)]


for name in names:
    device, oracle = losses(f"{folder}/{name}.cpu"), losses(f"{folder}/{name}.interp")
    assert len(device) == len(oracle) >= 2, (name, device, oracle)
    for got, wanted in zip(device, oracle):
        assert abs(got - wanted) <= 1e-3 * abs(wanted), (name, device, oracle)
    assert device[-1] < 0.9 * device[0], (name, device)
