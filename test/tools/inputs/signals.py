# SPDX-License-Identifier: Apache-2.0
"""signals.py TG_RUN FAULTS_SO AFFINE FOLDER: a training that gets two signals ends at once, with what it saved before;
a checkpoint that is being written when the second one comes is finished, and the run ends behind it, also where steps
go on meanwhile."""
import os
import shutil
import signal
import subprocess
import sys
import time

ROWS = 2000000  # a step of so many rows takes a second or more in the interpreter


def wait_for(what, seconds=60):
    """Asks until `what` says something; what it said."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError("nothing happened for a minute")


class Run:
    def __init__(self, folder, name, tg_run, model, *options, env=None, steps=1000000):
        self.dir = f"{folder}/{name}"
        self.out = open(f"{self.dir}.log", "w+")
        command = [tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam",
                   "--data=x=rand(1),y=0", f"--run-dir={self.dir}", f"--steps={steps}", *options]
        self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.STDOUT, env=env)

    def text(self):
        return open(self.out.name).read()

    def checkpoints(self):
        try:
            return sorted(each for each in os.listdir(f"{self.dir}/ckpt") if each.startswith("step_"))
        except FileNotFoundError:
            return []

    def end(self):
        """The exit code, and after how many seconds it came."""
        begin = time.monotonic()
        code = self.process.wait(60)
        return code, time.monotonic() - begin


def goes_on(tg_run, run, step):
    """The run resumes behind a step."""
    done = subprocess.run([tg_run, "train", f"--resume={run.dir}", f"--steps={step + 1}"], capture_output=True, text=True)
    assert done.returncode == 0 and f"step {step + 1}/{step + 1}" in done.stdout, (done.stdout, done.stderr)


def in_the_middle_of_a_step(tg_run, folder, signals):
    name = "-".join(each.name for each in signals)
    run = Run(folder, name, tg_run, f"{folder}/slow.tgir", "--ckpt-every=1", "--keep-last=1")
    wait_for(lambda: len(run.checkpoints()) > 0)
    begin = time.monotonic()
    wait_for(lambda: int(run.checkpoints()[-1][5:]) > 1)
    each = time.monotonic() - begin
    time.sleep(each / 4)
    run.process.send_signal(signals[0])
    time.sleep(0.05)
    run.process.send_signal(signals[1])
    code, seconds = run.end()
    assert code == -signals[1], (code, run.text())
    # The step had three quarters to go, so half of it is early, also on a machine with other work.
    assert seconds < each / 2, f"{seconds} s, a step takes {each} s"
    goes_on(tg_run, run, int(run.checkpoints()[-1][5:]))


def while_it_saves(tg_run, faults, folder):
    log = f"{folder}/operations"
    env = dict(os.environ, LD_PRELOAD=faults, FAULT_ROOT=f"{folder}/saves/ckpt", FAULT_LOG=log, FAULT_SLOW="1")
    run = Run(folder, "saves", tg_run, f"{folder}/m.tgir", env=env)
    wait_for(lambda: "step 1/" in run.text())
    run.process.send_signal(signal.SIGINT)
    wait_for(lambda: os.path.exists(log) and "fsync" in open(log).read())
    assert not run.checkpoints(), run.checkpoints()
    run.process.send_signal(signal.SIGTERM)
    code, _ = run.end()
    assert code == 130 and "Resume: " in run.text(), (code, run.text())
    assert len(run.checkpoints()) == 1, run.checkpoints()
    goes_on(tg_run, run, int(run.checkpoints()[0][5:]))


def while_it_saves_meanwhile(tg_run, faults, folder, signals):
    """The same of a checkpoint that a thread writes while training goes on. One signal ends behind it with the last
    step saved too; a second one with what was being written."""
    name = "meanwhile-" + "-".join(each.name for each in signals)
    log = f"{folder}/{name}.operations"
    env = dict(os.environ, LD_PRELOAD=faults, FAULT_ROOT=f"{folder}/{name}/ckpt", FAULT_LOG=log, FAULT_SLOW="1")
    run = Run(folder, name, tg_run, f"{folder}/large.tgir", "--ckpt-every=2", "--log-every=1", env=env)
    wait_for(lambda: os.path.exists(log) and "fsync" in open(log).read())
    wait_for(lambda: "step 3/" in run.text())  # it goes on
    assert not run.checkpoints(), run.checkpoints()
    for each in signals:
        run.process.send_signal(each)
        time.sleep(0.05)
    code, _ = run.end()
    saved, text = [int(each[5:]) for each in run.checkpoints()], run.text()
    stopped = int(text.split("interrupted at step ")[1].split(".")[0].split(",")[0])
    assert code == 130 and "training waits" not in text and stopped > 2, (code, text)
    assert saved == ([2, stopped] if len(signals) == 1 else [2]), (saved, text)
    assert (f"interrupted at step {stopped}, saved at step 2. Resume: " in text) == (len(signals) > 1), text
    goes_on(tg_run, run, saved[-1])
    return saved[-1] + 1, open(f"{run.dir}/ckpt/step_{saved[-1] + 1:08}/model.safetensors", "rb").read()


def behind_the_last_step(tg_run, faults, folder):
    """Two signals when all steps are done and an earlier checkpoint is being written: the last one is left out, and
    the run says that it is to be resumed."""
    log = f"{folder}/last.operations"
    env = dict(os.environ, LD_PRELOAD=faults, FAULT_ROOT=f"{folder}/last/ckpt", FAULT_LOG=log, FAULT_SLOW="1")
    run = Run(folder, "last", tg_run, f"{folder}/large.tgir", "--ckpt-every=2", "--log-every=1", env=env, steps=3)
    wait_for(lambda: os.path.exists(log) and "fsync" in open(log).read())
    wait_for(lambda: "step 3/3" in run.text())
    assert not run.checkpoints(), run.checkpoints()
    run.process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    run.process.send_signal(signal.SIGTERM)
    code, _ = run.end()
    assert code == 143 and "interrupted at step 3, saved at step 2. Resume: " in run.text(), (code, run.text())
    assert [int(each[5:]) for each in run.checkpoints()] == [2], run.checkpoints()
    goes_on(tg_run, run, 2)


def asked_to_save_too_early_and_too_late(tg_run, faults, folder):
    """SIGUSR1 while the module is read and while --out is written ends nothing."""
    log, out = f"{folder}/out.operations", f"{folder}/out.safetensors"
    env = dict(os.environ, LD_PRELOAD=faults, FAULT_ROOT=out, FAULT_LOG=log, FAULT_SLOW="1")
    text = open(f"{folder}/m.tgir").read()
    process = subprocess.Popen([tg_run, "train", "-", "--device=interp", "--pipeline=append-grad,append-adam", "--steps=1",
                                "--data=x=rand(1),y=0", f"--run-dir={folder}/asked", f"--out={out}"], env=env, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    process.stdin.write("//" + "." * 1000000 + "\n")  # more than a pipe holds: it is being read
    process.stdin.flush()
    process.send_signal(signal.SIGUSR1)
    process.stdin.write(text)
    process.stdin.close()
    wait_for(lambda: os.path.exists(log) and "fsync" in open(log).read())
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0 and os.path.exists(out), (process.returncode, process.stdout.read())


def same_as_without_a_signal(tg_run, folder, step, tensors):
    run = Run(folder, f"to-{step}", tg_run, f"{folder}/large.tgir", steps=step)
    assert run.end()[0] == 0, run.text()
    assert open(f"{run.dir}/ckpt/step_{step:08}/model.safetensors", "rb").read() == tensors, step


def main():
    tg_run, faults, affine, folder = sys.argv[1:5]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    text = open(affine).read()
    for name, rows in (("m", 4), ("slow", ROWS)):
        with open(f"{folder}/{name}.tgir", "w") as file:
            file.write(text.replace("4x2", f"{rows}x2"))
    in_the_middle_of_a_step(tg_run, folder, (signal.SIGINT, signal.SIGTERM))
    in_the_middle_of_a_step(tg_run, folder, (signal.SIGTERM, signal.SIGINT))
    while_it_saves(tg_run, faults, folder)
    with open(f"{folder}/large.tgir", "w") as file:  # 20 MB of parameters and moments
        file.write(text.replace("@w : tensor<2x2xf32> {init = dense<1.0, 2.0, 3.0, 4.0>}",
                                "@w : tensor<2x2xf32> {init = dense<1.0, 2.0, 3.0, 4.0>}\n"
                                "  param @large : tensor<1200x1400xf32> {init = randn(0.1)}"))
    while_it_saves_meanwhile(tg_run, faults, folder, (signal.SIGINT, signal.SIGTERM))
    same_as_without_a_signal(tg_run, folder, *while_it_saves_meanwhile(tg_run, faults, folder, (signal.SIGINT,)))
    behind_the_last_step(tg_run, faults, folder)
    asked_to_save_too_early_and_too_late(tg_run, faults, folder)
    print("two signals end a run, none of its checkpoints")


main()
