# SPDX-License-Identifier: Apache-2.0
"""torture.py TG_RUN MODEL TEXT FOLDER KILLS: kills a training again and again, also while it saves, and compares what it
ends with to a run nobody disturbed. Prints a line of figures; any difference or loss is an error."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

tg_run, model, text, folder, kills = sys.argv[1:5] + [int(sys.argv[5])]
STEPS = 300
COMMON = [tg_run, "train", model, f"--data=text:{text}", f"--steps={STEPS}", "--device=cpu", "--seed=11",
          "--ckpt-every=2", "--keep-last=0", "--log-every=1"]


def files(run, step):
    place = f"{run}/ckpt/step_{step:08}"
    return {name: open(f"{place}/{name}", "rb").read() for name in ("model.safetensors", "optim.safetensors")}


def rows(run):
    """Step and loss of every row that was recorded."""
    return [(row["step"], row["loss"]) for row in map(json.loads, open(f"{run}/metrics.jsonl"))]


def temporary(run):
    place = f"{run}/ckpt"
    return {name for name in os.listdir(place) if name.startswith(".tmp")} if os.path.isdir(place) else set()


def life(run, rng, dies):
    """One process: its acknowledged checkpoints, what it printed, and whether it was killed within a save."""
    stale = temporary(run)
    child = subprocess.Popen(COMMON + [f"--run-dir={run}", "--resume=auto"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    left, saved, said, within = rng.randint(1, 6), [], [], False
    manner = rng.choice(["step", "pause", "save"])
    for line in child.stdout:
        said.append(line)
        if line.startswith("saved "):
            saved.append(int(line.rsplit("step_", 1)[1]))
        left -= line.startswith("step ")
        if dies and left <= 0:
            if manner == "pause":
                time.sleep(rng.random() * 0.02)
            end = time.time() + 0.2
            while manner == "save" and temporary(run) <= stale and time.time() < end and child.poll() is None:
                pass
            child.send_signal(signal.SIGKILL)
            within = not temporary(run) <= stale
            # What the pipe still holds was acknowledged too.
            for late in child.stdout:
                said.append(late)
                if late.startswith("saved "):
                    saved.append(int(late.rsplit("step_", 1)[1]))
            break
    return child.wait(), saved, said, within


def main():
    rng = random.Random(7)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    calm, hurt = f"{folder}/calm", f"{folder}/hurt"
    subprocess.run(COMMON + [f"--run-dir={calm}"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    killed = within = 0
    acknowledged = set()
    while True:
        code, saved, said, inside = life(hurt, rng, killed < kills)
        whole = "".join(said)
        assert "skipped" not in whole and "error" not in whole, whole
        resumed = [int(line.rsplit(" ", 1)[1]) for line in said if line.startswith("resuming ")]
        if acknowledged:
            assert resumed and resumed[0] >= max(acknowledged), (resumed, max(acknowledged))
        acknowledged.update(saved)
        for step in acknowledged:
            assert os.path.exists(f"{hurt}/ckpt/step_{step:08}/COMPLETE"), f"step {step} is lost"
        if code == 0:
            break
        assert code == -signal.SIGKILL, (code, whole)
        killed += 1
        within += inside
    assert killed >= kills, f"only {killed} kills before the end"
    assert files(calm, STEPS) == files(hurt, STEPS), "the parameters differ"
    assert rows(calm) == rows(hurt), "the losses differ"
    assert within, "no kill fell into a save"
    print(f"{killed} kills, {within} within a save, {len(acknowledged)} checkpoints acknowledged: all is equal")


main()
