# SPDX-License-Identifier: Apache-2.0
"""hangup.py TG_RUN AFFINE FOLDER: a training whose terminal is closed saves, as does one that is told so twice; one that
ignores hangups goes on."""
import os
import pty
import signal
import subprocess
import sys
import time

tg_run, model, folder = sys.argv[1:]
SECONDS = 300  # for what takes a few, on a machine with other work


def command(name, steps=1000000000):
    return [tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam", "--data=x=rand(1),y=0",
            f"--run-dir={folder}/{name}", f"--steps={steps}", "--log-every=1000000000"]


def begun(name):
    """Until the first step has been written down."""
    end = time.monotonic() + SECONDS
    while not (os.path.exists(f"{folder}/{name}/metrics.jsonl") and os.path.getsize(f"{folder}/{name}/metrics.jsonl")):
        assert time.monotonic() < end, "no step was made"
        time.sleep(0.01)


def saved(name):
    path = f"{folder}/{name}/ckpt"
    return "saved" if os.path.isdir(path) and os.listdir(path) else "lost"


child, terminal = pty.fork()
if child == 0:
    os.execvp(tg_run, command("closed"))
begun("closed")
os.close(terminal)
os.waitpid(child, 0)
print("closed:", saved("closed"))

twice = subprocess.Popen(command("twice"), stdout=subprocess.DEVNULL)
begun("twice")
for _ in range(2):
    twice.send_signal(signal.SIGHUP)
    time.sleep(0.001)
print("twice:", twice.wait(SECONDS), saved("twice"))

ignored = subprocess.Popen(command("ignored", steps=20000), stdout=subprocess.DEVNULL,
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
begun("ignored")
ignored.send_signal(signal.SIGHUP)
print("ignored:", ignored.wait(SECONDS), os.listdir(f"{folder}/ignored/ckpt"))
