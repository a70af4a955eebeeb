#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the commands of pages: every line of a code block that runs a program of build/release/bin has to end with 0.

    run_commands.py ROOT PAGE.md...

They run in a folder that is left behind empty, with /tmp inside of it; the programs are those on PATH, and each has a
model on standard input. What trains takes at most 20 steps. What stands behind several spaces is a remark; lines with
an ellipsis, and those that choose a driver, are passed over.
"""
import os
import re
import subprocess
import sys
import tempfile


def commands(path):
    """Line and text of each command."""
    inside = None
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if line.startswith("```"):
            inside = not inside
        typed = re.sub(r" {3,}.*", "", line.rstrip().removeprefix("$ "))
        if inside and typed.startswith("build/release/bin/") and "\u2026" not in typed:
            yield number, typed


def main(root, pages):
    ran = wrong = 0
    with tempfile.TemporaryDirectory() as work:
        os.symlink(os.path.join(root, "docs"), os.path.join(work, "docs"))
        os.symlink(os.path.join(root, "docs/targets/gpu.json"), os.path.join(work, "mine.json"))
        for name in "xy":  # the data of the README's script
            open(os.path.join(work, name + ".npy"), "wb").write(
                b"\x93NUMPY\x01\x00\x76\x00" +
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (1024, 1), }".ljust(117) + b"\n" + bytes(4096))
        for page in pages:
            for line, typed in commands(page):
                if "gen-docs" in typed:
                    continue  # would write to the tree
                short = re.sub(r"--steps=\d+", "--steps=20", typed.replace("build/release/bin/", ""))
                short = short.replace(" /tmp/", f" {work}/").replace("=/tmp/", f"={work}/").replace("@/tmp/", f"@{work}/")
                ran += 1
                with open(os.path.join(root, "docs/examples/sin.tgir"), encoding="utf-8") as model:
                    done = subprocess.run(["bash", "-c", short], cwd=work, stdin=model, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                if done.returncode:
                    wrong += 1
                    print(f"{page}:{line}: ends with {done.returncode}\n$ {short}\n{done.stdout[-600:]}", file=sys.stderr)
    print(f"{ran} commands, {wrong} fail")
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2:]))
