# SPDX-License-Identifier: Apache-2.0
"""run_pipes.py TG_RUN MODEL DATA FOLDER: a pipe that nobody writes to, and a socket, in the place of each file of a run.
Every verb ends by itself: without a word, since it needs the file not, or with an error or warning that names it.
Prints a line of figures."""
import os
import shutil
import socket
import subprocess
import sys

tg_run, model, data, folder = sys.argv[1:5]
whole, hurt = f"{folder}/whole", f"{folder}/hurt"
# A training cannot go on without these; what it can, it keeps under another name.
NEEDED = ("config.toml", "model.tgir", "module.spirv.tgir", "metrics.jsonl")


def call(*words):
    return subprocess.run([tg_run, *words], capture_output=True, text=True, timeout=60)


def train(run, *words):
    return call("train", model, "--device=interp", "--pipeline=append-grad,append-adam{lr=0.05}", f"--data={data}",
                "--val-fraction=0.25", "--ckpt-every=2", "--log-every=1", "--metrics=jsonl,csv", f"--run-dir={run}", *words)


def put(path, kind):
    os.unlink(path)
    if kind == "pipe":
        os.mkfifo(path)
        return
    # A socket's path may have 107 bytes at most.
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.basename(path))
    os.chdir(here)


def main():
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    done = train(whole, "--steps=4")
    assert done.returncode == 0, done.stderr
    names = sorted(os.path.relpath(os.path.join(place, name), whole) for place, _, names in os.walk(whole) for name in names)
    refused = 0
    for name in names:
        for kind in ("pipe", "socket"):
            for words in (["inspect", hurt], ["eval", hurt], ["plot", hurt, "-o", f"{folder}/plot.html"],
                          ["train", f"--resume={hurt}", "--steps=6"]):
                shutil.rmtree(hurt, ignore_errors=True)
                shutil.copytree(whole, hurt)
                put(f"{hurt}/{name}", kind)
                done = call(*words)
                what = (kind, name, words, done.returncode, done.stderr)
                assert done.returncode in (0, 1), what
                told = name in done.stderr or ": ".join(os.path.split(name)) in done.stderr  # of a checkpoint
                assert done.returncode == 0 or (done.stderr.count("error:") == 1 and told), what
                if words[0] == "train":
                    assert (done.returncode == 1) == (name in NEEDED), what
                    assert name.startswith("ckpt/step_00000002/") or os.path.basename(name) in done.stderr, what
                refused += done.returncode
    # A folder that is no run yet.
    for name in ("metrics.jsonl", "model.tgir", "log.txt", "env.json"):
        shutil.rmtree(hurt)
        os.makedirs(hurt)
        os.mkfifo(f"{hurt}/{name}")
        done = train(hurt, "--steps=2")
        assert (done.returncode == 1) == (name in NEEDED) and f"{name}" in done.stderr, (name, done.stderr)
    print(f"{len(names)} files, {refused} refusals, nobody waits")


main()
