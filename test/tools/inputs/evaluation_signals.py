# SPDX-License-Identifier: Apache-2.0
"""evaluation_signals.py TG_RUN AFFINE FOLDER: a signal breaks off an evaluation, that of the last step or another one.
The run says so, and the resumed one leaves what a run without a signal does."""
import json
import os
import shutil
import signal
import subprocess
import sys

import misuse_files
from signals import TRIES, Run, read, wait_for

ROWS = 20000  # an evaluation of so many takes some tenths of a second


def learned(run):
    """What a run leaves that is no time: its rows, and of each checkpoint the tensors and the state."""
    times = ("time", "ms", "items_per_s", "save_ms", "seconds")

    def timeless(text):
        return {key: value for key, value in json.loads(text).items() if key not in times}

    files = ("model.safetensors", "optim.safetensors")
    return ([timeless(line) for line in read(f"{run.dir}/metrics.jsonl").splitlines()],
            {step: (timeless(read(f"{run.dir}/ckpt/step_{step:08}/state.json")),
                    *[read(f"{run.dir}/ckpt/step_{step:08}/{name}") for name in files]) for step in run.checkpoints()})


def in_an_evaluation(tg_run, folder, step, which):
    """A signal in the evaluation behind a step of four. One that comes too late is sent again, to a longer evaluation."""
    options = ("--eval-every=2", "--ckpt-every=2", "--keep-best")
    for attempt in range(TRIES):
        name, rows = f"evaluation-{step}-{attempt}", ROWS << (2 * attempt)
        misuse_files.write(folder, f"{name}.npy", misuse_files.floats(rows, 2))
        data = ("--data=x=rand(1),y=0", f"--data=val=x=@{folder}/{name}.npy,y=0")
        run = Run(folder, name, tg_run, f"{folder}/m.tgir", *options, steps=4, device="cpu", data=data)
        wait_for(lambda: f"step {step}/4" in run.text())
        run.send(which)
        code, text = run.end(), run.text()
        if text.count("val loss") == step // 2:
            continue
        assert code == 128 + which and text.count("val loss") == step // 2 - 1, (code, text)
        assert f"interrupted at step {step}, before its evaluation was done. Resume: " in text, text
        state = json.loads(subprocess.run([tg_run, "inspect", "--json", run.dir], capture_output=True, check=True).stdout)
        assert state["inspected"][0]["state"] == "stopped", state
        owed = f"the evaluation of step {step} is owed" if step == 4 else ""
        shown = f"stopped, {owed}" if owed else "stopped"
        assert f'"state":"{shown}"' in read(f"{run.dir}/index.html").decode(), shown
        plot = [tg_run, "plot", "--json", run.dir]
        plotted = json.loads(subprocess.run(plot, capture_output=True, check=True).stdout)["runs"][0]
        assert (plotted["state"], plotted["owed"]) == ("stopped", owed), plotted
        killed = shutil.copytree(run.dir, f"{run.dir}-killed")
        done = subprocess.run([tg_run, "train", f"--resume={run.dir}"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.count("val loss") == 3 - step // 2, (done.stdout, done.stderr)
        whole = Run(folder, f"{name}-whole", tg_run, f"{folder}/m.tgir", *options, steps=4, device="cpu", data=data)
        assert whole.end() == 0, whole.text()
        assert learned(run) == learned(whole), (learned(run), learned(whole))
        # As where the run was killed behind the row of the evaluation and before the checkpoint that knows of it.
        shutil.copy(f"{run.dir}/metrics.jsonl", killed)
        run.dir = killed
        subprocess.run([tg_run, "train", f"--resume={killed}"], capture_output=True, check=True)
        assert learned(run) == learned(whole), (learned(run), learned(whole))
        return
    raise AssertionError(f"the evaluation was finished in each of {TRIES} runs: {text}")


def main():
    tg_run, affine, folder = sys.argv[1:4]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(affine, f"{folder}/m.tgir")
    in_an_evaluation(tg_run, folder, 2, signal.SIGTERM)
    in_an_evaluation(tg_run, folder, 4, signal.SIGINT)
    print("evaluations are made up for")


main()
