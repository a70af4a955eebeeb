# SPDX-License-Identifier: Apache-2.0
"""run_mutants.py TG_RUN MODEL DATA FOLDER COUNT [SEED]: damages the files of a run, one at a time, and gives it to the
verbs. A verb ends by itself, with a code it documents, and never calls itself broken; a resumed training either
refuses, with one error that names a file, or ends with the parameters that it would have had. Prints a line of figures."""
import os
import random
import re
import shutil
import subprocess
import sys

from mutants import mutate
from weights import close, weights

tg_run, model, data, folder, count = sys.argv[1:5] + [int(sys.argv[5])]
rng = random.Random(int(sys.argv[6]) if len(sys.argv) > 6 else 1)
whole, hurt = f"{folder}/whole", f"{folder}/hurt"
STEPS = 6
FINAL = f"ckpt/step_{STEPS:08}/model.safetensors"
# These are what training starts from; all others are looked at by people.
STARTS = ("config.toml", "model.tgir", "module.spirv.tgir", "ckpt/")


def call(*words):
    return subprocess.run([tg_run, *words], capture_output=True, text=True, errors="replace", timeout=60)


def start():
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    done = call("train", model, "--device=interp", "--pipeline=append-grad,append-adam{lr=0.05}", f"--data={data}",
                "--val-fraction=0.25", "--steps=4", "--ckpt-every=2", "--log-every=1", f"--run-dir={whole}")
    assert done.returncode == 0, done.stderr


def files():
    return sorted(os.path.relpath(os.path.join(place, name), whole) for place, _, names in os.walk(whole) for name in names)


def judge(words, done, what):
    assert 0 <= done.returncode <= 3, (what, words, done.returncode, done.stderr)
    said = done.stderr + done.stdout
    assert "bug in the compiler" not in said and "terminate called" not in said, (what, words, said)
    if done.returncode:
        assert done.stderr.count("error:") == 1, (what, words, done.stderr)


def main():
    start()
    shutil.copytree(whole, hurt)
    done = call("train", f"--resume={hurt}", f"--steps={STEPS}")
    assert done.returncode == 0, done.stderr
    expected = weights(f"{hurt}/{FINAL}")
    refused = went = same = 0
    for _ in range(count):
        shutil.rmtree(hurt)
        shutil.copytree(whole, hurt)
        names = files()
        name, other = rng.choice(names), rng.choice(names)
        before = open(f"{whole}/{name}", "rb").read()
        after, kind = mutate(before, open(f"{whole}/{other}", "rb").read(), rng)
        open(f"{hurt}/{name}", "wb").write(after)
        what = f"{kind} in {name}"
        for words in (["inspect", hurt], ["eval", hurt], ["plot", hurt, "-o", f"{folder}/plot.html"]):
            judge(words, call(*words), what)
        done = call("train", f"--resume={hurt}", f"--steps={STEPS}")
        judge("train", done, what)
        if done.returncode:
            assert before != after and name.startswith(STARTS), (what, done.stderr)
            assert re.search(r"config\.toml|model\.tgir|module\.spirv\.tgir|no good checkpoint", done.stderr), (what, done.stderr)
            refused += 1
        else:
            assert close(weights(f"{hurt}/{FINAL}"), expected), f"{what}: other parameters"
            went += before != after
            same += before == after
    print(f"{count} mutants: {refused} refused, {went} went on to the same parameters, {same} unchanged")


main()
