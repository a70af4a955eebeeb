# SPDX-License-Identifier: Apache-2.0
"""tuning_mutants.py TG_OPT MODEL TUNING FOLDER COUNT [SEED]: compiles a module with damaged schedules of a tuning file.
Each is taken or refused by one error; nothing ends in a crash or calls itself broken. Prints a line of figures."""
import os
import random
import subprocess
import sys

from mutants import mutate

tg_opt, model, tuning, folder, count = sys.argv[1:5] + [int(sys.argv[5])]
rng = random.Random(int(sys.argv[6]) if len(sys.argv) > 6 else 1)
PASSES = "append-grad,append-adam{lr=0.05},fuse{tuning=%s},plan,lower-kernels"


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
        damaged, _ = mutate(whole, whole[::-1], rng)
        open(file, "wb").write(damaged)
        done = compile(file)
        refused += done.returncode > 0
        changed += done.returncode == 0 and done.stdout != taken
    print(f"{count} mutants: {refused} refused, {changed} took other schedules, {count - refused - changed} none")


main()
