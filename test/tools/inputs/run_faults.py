# SPDX-License-Identifier: Apache-2.0
"""run_faults.py TG_RUN SHIM MODEL DATA FOLDER STRIDE [KIND]: a training whose file operations fail, each in turn (every
STRIDE-th of them): no space, an error of the disk, half a write, or the process is killed there; KIND (0 to 3) chooses
which of these the first one meets. The same command then ends as if nothing had happened, and no temporary file is
left. Prints a line of figures."""
import os
import shutil
import signal
import subprocess
import sys

from weights import close, weights

tg_run, shim, model, data, folder, stride = sys.argv[1:6] + [int(sys.argv[6])]
turn = int(sys.argv[7]) if len(sys.argv) > 7 else 0
STEPS = 6


def command(run, *more):
    return [tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam{lr=0.05}", f"--data={data}",
            f"--steps={STEPS}", "--ckpt-every=2", "--keep-last=1", "--log-every=2", f"--run-dir={run}", "--resume=auto", *more]


def call(words, run, **env):
    env = {**os.environ, "LD_PRELOAD": shim, "FAULT_ROOT": run, **env} if env else os.environ
    return subprocess.run(words, capture_output=True, text=True, env=env, timeout=60)


def train(run, *more, **env):
    return call(command(run, *more), run, **env)


def result(run):
    return weights(f"{run}/ckpt/step_{STEPS:08}/model.safetensors")


def main():
    folder_ = os.path.abspath(folder)
    shutil.rmtree(folder_, ignore_errors=True)
    os.makedirs(folder_)
    calm, hurt, log = f"{folder_}/calm", f"{folder_}/hurt", f"{folder_}/log"
    done = train(calm, FAULT_LOG=log)
    assert done.returncode == 0, done.stderr
    operations = open(log).read().splitlines()
    expected, ended = result(calm), {}
    for number in range(1, len(operations) + 1, stride):
        # The kinds take turns, so that each meets every sort of operation after a few strides.
        kind = ("kill", "enospc", "eio", "short")[(number // stride + turn) % 4]
        shutil.rmtree(hurt, ignore_errors=True)
        where = f"{kind} at {operations[number - 1]}"
        first = train(hurt, FAULT=f"{number}:{kind}")
        codes = [-signal.SIGKILL] if kind == "kill" else [0, 1]
        assert first.returncode in codes, (where, first.returncode, first.stderr)
        errors = first.stderr.count("error:")
        assert errors == (first.returncode == 1), (where, first.stderr)
        again = train(hurt)
        assert again.returncode == 0, (where, first.stderr, again.stderr)
        assert close(result(hurt), expected), where
        left = [name for place, folders, files in os.walk(hurt) for name in folders + files if ".tmp" in name]
        assert not left, (where, left)
        ended[kind] = ended.get(kind, 0) + 1
    # Metrics that cannot be written end the run, but not without a checkpoint.
    rows = [each.split()[0] for each in operations if each.endswith("metrics.jsonl") and each.split()[1] == "write"]
    shutil.rmtree(hurt)
    first = train(hurt, FAULT=f"{rows[0]}:eio")
    assert first.returncode == 1 and first.stderr.count("error:") == 1, first.stderr
    assert "metrics.jsonl: cannot write: Input/output error; the run ends at step" in first.stderr, first.stderr
    assert os.listdir(f"{hurt}/ckpt") in (["step_00000001"], ["step_00000002"]), os.listdir(f"{hurt}/ckpt")
    # If the last checkpoint cannot be saved, --out on another disk still has what was learned.
    last = [each.split()[0] for each in operations if "/ckpt/" in each and each.split()[1] == "mkdir"][-1]
    shutil.rmtree(hurt)
    out = f"{folder_}/out.safetensors"
    first = train(hurt, f"--out={out}", FAULT=f"{last}:enospc")
    assert first.returncode == 1 and first.stderr.count("error:") == 1, first.stderr
    assert f"note: saved {out}" in first.stderr, first.stderr
    assert close(weights(out), expected)
    # A run without checkpoints keeps its options, wherever it is killed or meets a full disk.
    begun, again = f"{folder_}/begun", [tg_run, "train", f"--resume={hurt}"]
    first = train(begun, FAULT=f"{next(each.split()[0] for each in operations if '/ckpt' in each)}:kill")
    shutil.rmtree(hurt)
    shutil.copytree(begun, hurt)
    os.remove(log)
    assert call(again, hurt, FAULT_LOG=log).returncode == 0
    for number in range(1, len(open(log).read().splitlines()) + 1, stride):
        shutil.rmtree(hurt)
        shutil.copytree(begun, hurt)
        call(again, hurt, FAULT=f"{number}:{('enospc', 'kill')[(number // stride + turn) % 2]}")
        done = call(again, hurt)
        assert done.returncode == 0, (number, done.stderr)
        assert close(result(hurt), expected), number
    print(f"{len(operations)} operations, {sum(ended.values())} faults ({', '.join(sorted(ended))}): all ends are equal")


main()
