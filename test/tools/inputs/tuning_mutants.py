# SPDX-License-Identifier: Apache-2.0
"""tuning_mutants.py TG_OPT MODEL TUNING FOLDER COUNT [SEED]: compiles a module with damaged schedules of a tuning file.
Each is taken or refused by one error; nothing ends in a crash or calls itself broken. Prints a line of figures."""
import os
import random
import re
import subprocess
import sys

from mutants import mutate

tg_opt, model, tuning, folder, count = sys.argv[1:5] + [int(sys.argv[5])]
rng = random.Random(int(sys.argv[6]) if len(sys.argv) > 6 else 1)
PASSES = "append-grad,append-adam{lr=0.05},fuse{tuning=%s},plan,lower-kernels"


def reschedule(whole):
    """Another number, or another kernel's schedule: what is still a tuning file, and often no schedule for the place."""
    lines = whole.decode().splitlines()
    at = rng.randrange(1, len(lines) - 1)
    key, schedule = lines[at].split(" = ", 1)
    if rng.randrange(3):
        number = rng.choice(list(re.finditer("[0-9]+", schedule)))
        other = rng.choice([0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 100, 256, 1024, 65536, 2**31, 2**32, 2**63 - 1, -1, -4])
        schedule = f"{schedule[:number.start()]}{other}{schedule[number.end():]}"
    else:
        schedule = rng.choice(lines[1:-1]).split(" = ", 1)[1].rstrip(",") + ("," if at < len(lines) - 2 else "")
    lines[at] = f"{key} = {schedule}"
    return "\n".join(lines).encode()


def compile(file):
    done = subprocess.run([tg_opt, "--crash-reproducer=none", f"--pass-pipeline={PASSES % file}", model], capture_output=True,
                          text=True, errors="replace", timeout=60)
    assert done.returncode in (0, 1, 2), (file, done.returncode, done.stderr)
    assert "bug in the compiler" not in done.stderr, (file, done.stderr)
    assert done.stderr.count("error:") == (done.returncode > 0), (file, done.stderr)
    return done


def main():
    os.makedirs(folder, exist_ok=True)
    whole = open(tuning, "rb").read()
    taken = compile(tuning).stdout
    refused = changed = 0
    for i in range(count):
        file = f"{folder}/{i}.txt"
        damaged = reschedule(whole) if i % 2 else mutate(whole, whole[::-1], rng)[0]
        open(file, "wb").write(damaged)
        done = compile(file)
        refused += done.returncode > 0
        changed += done.returncode == 0 and done.stdout != taken
    print(f"{count} mutants: {refused} refused, {changed} took other schedules, {count - refused - changed} none")


main()
