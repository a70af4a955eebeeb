# SPDX-License-Identifier: Apache-2.0
"""signals.py TG_RUN FAULTS_SO AFFINE FOLDER: a training that gets two signals ends at once, with what it saved before;
a checkpoint that is being written when the second one comes is finished, and the run ends behind it, also where steps
go on meanwhile.

Nothing here depends on how fast the machine is: a checkpoint is being written for as long as the test keeps a gate shut,
a signal counts as heard when the kernel says so, and what comes too late for a step is tried again with a longer one."""
import os
import shutil
import signal
import subprocess
import sys
import time

SECONDS = 300  # for what takes a few, on a machine with other work
TRIES = 6
ROWS = 1000000        # a step of so many rows takes half a second or more in the interpreter


def wait_for(what):
    """Asks until `what` says something; what it said."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"nothing happened for {SECONDS} s")


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Gate:
    """Keeps a run from finishing a file below `root`: fsync waits until the gate is opened."""

    def __init__(self, faults, folder, name, root):
        self.log, self.key = f"{folder}/{name}.operations", f"{folder}/{name}.open"
        self.env = dict(os.environ, LD_PRELOAD=faults, FAULT_ROOT=root, FAULT_LOG=self.log, FAULT_GATE=self.key)

    def wait(self):
        """Until the run stands before it."""
        wait_for(lambda: os.path.exists(self.log) and b"fsync" in read(self.log))

    def open(self):
        open(self.key, "w").close()


class Run:
    def __init__(self, folder, name, tg_run, model, *options, env=None, steps=1000000, device="interp",
                 data=("--data=x=rand(1),y=0",)):
        self.dir, self.log = f"{folder}/{name}", f"{folder}/{name}.log"
        command = [tg_run, "train", model, f"--device={device}", "--pipeline=append-grad,append-adam", *data,
                   f"--run-dir={self.dir}", f"--steps={steps}", "--log-every=1", *options]
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)

    def text(self):
        return read(self.log).decode()

    def steps(self):
        return sum(line.startswith("step ") for line in self.text().splitlines())

    def checkpoints(self):
        try:
            return sorted(int(each[5:]) for each in os.listdir(f"{self.dir}/ckpt") if each.startswith("step_"))
        except FileNotFoundError:
            return []

    def send(self, which):
        """Returns when the process has heard it: the signal is neither pending nor, as while it is handled, blocked."""
        self.process.send_signal(which)
        bit = 1 << (which - 1)

        def heard():
            if self.process.poll() is not None:
                return True
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                try:
                    lines = read(f"/proc/{self.process.pid}/task/{task}/status").decode().splitlines()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                masks = dict(line.split(":", 1) for line in lines if line.startswith(("SigPnd", "ShdPnd", "SigBlk")))
                if any(int(mask, 16) & bit for mask in masks.values()):
                    return False
            return True

        wait_for(heard)

    def end(self):
        return self.process.wait(SECONDS)


def goes_on(tg_run, run, step):
    """The run resumes behind a step."""
    done = subprocess.run([tg_run, "train", f"--resume={run.dir}", f"--steps={step + 1}"], capture_output=True, text=True)
    assert done.returncode == 0 and f"step {step + 1}/{step + 1}" in done.stdout, (done.stdout, done.stderr)


def in_the_middle_of_a_step(tg_run, text, folder, signals):
    """The second signal leaves no time for the end of the step, which is longer each time it was over too soon."""
    for attempt in range(TRIES):
        name = "-".join(each.name for each in signals) + f"-{attempt}"
        model = f"{folder}/{name}.tgir"
        with open(model, "w") as file:
            file.write(text.replace("4x2", f"{ROWS << attempt}x2"))
        run = Run(folder, name, tg_run, model, "--ckpt-every=1", "--keep-last=1")
        wait_for(lambda: len(run.checkpoints()) > 0)
        before = run.steps()
        for each in signals:
            run.send(each)
        code = run.end()
        assert code in (-signals[1], 128 + signals[0]), (code, run.text())
        # If the first signal came between two steps, the run was at its end when the second one came.
        if code == -signals[1] and run.steps() == before and "interrupted" not in run.text():
            goes_on(tg_run, run, run.checkpoints()[-1])
            return
    raise AssertionError(f"the step was finished in each of {TRIES} runs: {run.text()}")


def while_it_saves(tg_run, faults, folder):
    gate = Gate(faults, folder, "saves", f"{folder}/saves/ckpt")
    run = Run(folder, "saves", tg_run, f"{folder}/m.tgir", env=gate.env)
    wait_for(lambda: "step 1/" in run.text())
    run.send(signal.SIGINT)
    gate.wait()
    run.send(signal.SIGTERM)
    assert not run.checkpoints(), run.checkpoints()
    gate.open()
    code = run.end()
    assert code == 130 and "Resume: " in run.text(), (code, run.text())
    assert len(run.checkpoints()) == 1, run.checkpoints()
    goes_on(tg_run, run, run.checkpoints()[0])


def while_it_saves_meanwhile(tg_run, faults, folder, signals):
    """The same of a checkpoint that a thread writes while training goes on. One signal ends behind it with the last
    step saved too; a second one with what was being written."""
    name = "meanwhile-" + "-".join(each.name for each in signals)
    gate = Gate(faults, folder, name, f"{folder}/{name}/ckpt")
    run = Run(folder, name, tg_run, f"{folder}/large.tgir", "--ckpt-every=2", env=gate.env)
    gate.wait()
    wait_for(lambda: "step 3/" in run.text())  # it goes on
    assert not run.checkpoints(), run.checkpoints()
    for each in signals:
        run.send(each)
    gate.open()
    code, saved, text = run.end(), run.checkpoints(), run.text()
    stopped = int(text.split("interrupted at step ")[1].split(".")[0].split(",")[0])
    assert code == 130 and "training waits" not in text and stopped > 2, (code, text)
    assert saved == ([2, stopped] if len(signals) == 1 else [2]), (saved, text)
    assert (f"interrupted at step {stopped}, saved at step 2. Resume: " in text) == (len(signals) > 1), text
    goes_on(tg_run, run, saved[-1])
    return saved[-1] + 1, read(f"{run.dir}/ckpt/step_{saved[-1] + 1:08}/model.safetensors")


def behind_the_last_step(tg_run, faults, folder):
    """Two signals when all steps are done and an earlier checkpoint is being written: the last one is left out, and
    the run says that it is to be resumed."""
    gate = Gate(faults, folder, "last", f"{folder}/last/ckpt")
    run = Run(folder, "last", tg_run, f"{folder}/large.tgir", "--ckpt-every=2", env=gate.env, steps=3)
    gate.wait()
    wait_for(lambda: "step 3/3" in run.text())
    assert not run.checkpoints(), run.checkpoints()
    run.send(signal.SIGTERM)
    run.send(signal.SIGTERM)
    gate.open()
    code = run.end()
    assert code == 143 and "interrupted at step 3, saved at step 2. Resume: " in run.text(), (code, run.text())
    assert run.checkpoints() == [2], run.checkpoints()
    goes_on(tg_run, run, 2)


def asked_to_save_too_early_and_too_late(tg_run, faults, folder):
    """SIGUSR1 while the module is read and while --out is written ends nothing."""
    out = f"{folder}/out.safetensors"
    gate = Gate(faults, folder, "out", out)
    text = read(f"{folder}/m.tgir").decode()
    process = subprocess.Popen([tg_run, "train", "-", "--device=interp", "--pipeline=append-grad,append-adam", "--steps=1",
                                "--data=x=rand(1),y=0", f"--run-dir={folder}/asked", f"--out={out}"], env=gate.env, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    process.stdin.write("//" + "." * 1000000 + "\n")  # more than a pipe holds: it is being read
    process.stdin.flush()
    process.send_signal(signal.SIGUSR1)
    process.stdin.write(text)
    process.stdin.close()
    gate.wait()
    process.send_signal(signal.SIGUSR1)
    gate.open()
    assert process.wait(SECONDS) == 0 and os.path.exists(out), (process.returncode, process.stdout.read())


def same_as_without_a_signal(tg_run, folder, step, tensors):
    run = Run(folder, f"to-{step}", tg_run, f"{folder}/large.tgir", steps=step)
    assert run.end() == 0, run.text()
    assert read(f"{run.dir}/ckpt/step_{step:08}/model.safetensors") == tensors, step


def main():
    tg_run, faults, affine, folder = sys.argv[1:5]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text = read(affine).decode()
    with open(f"{folder}/m.tgir", "w") as file:
        file.write(text)
    in_the_middle_of_a_step(tg_run, text, folder, (signal.SIGINT, signal.SIGTERM))
    in_the_middle_of_a_step(tg_run, text, folder, (signal.SIGTERM, signal.SIGINT))
    while_it_saves(tg_run, faults, folder)
    with open(f"{folder}/large.tgir", "w") as file:  # 20 MB of parameters
        file.write(text.replace("@w : tensor<2x2xf32> {init = dense<1.0, 2.0, 3.0, 4.0>}",
                                "@w : tensor<2x2xf32> {init = dense<1.0, 2.0, 3.0, 4.0>}\n"
                                "  param @large : tensor<2100x2400xf32> {init = randn(0.1)}"))
    while_it_saves_meanwhile(tg_run, faults, folder, (signal.SIGINT, signal.SIGTERM))
    same_as_without_a_signal(tg_run, folder, *while_it_saves_meanwhile(tg_run, faults, folder, (signal.SIGINT,)))
    behind_the_last_step(tg_run, faults, folder)
    asked_to_save_too_early_and_too_late(tg_run, faults, folder)
    print("two signals end a run, none of its checkpoints")


if __name__ == "__main__":
    main()
