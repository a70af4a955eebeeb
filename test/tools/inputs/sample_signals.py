# SPDX-License-Identifier: Apache-2.0
"""sample_signals.py TG_RUN GPT TEXT FOLDER: a signal breaks off a text, that of the last step or another one. The
resumed run leaves the rows of samples.jsonl that a run without a signal does."""
import json
import signal
import subprocess
import sys

from signals import TRIES, Run, read, wait_for


def rows(run):
    return [json.loads(line) for line in read(f"{run.dir}/samples.jsonl").splitlines()]


def in_a_text(tg_run, model, text, folder, step):
    """A signal in the text behind a step of six. One that comes too late is sent again, into a longer text."""
    for attempt in range(TRIES):
        options = ("--sample-every=3", "--sample-prompt=a", f"--sample-tokens={2000 << (2 * attempt)}")
        run, whole = (Run(folder, f"text-{step}-{attempt}{part}", tg_run, model, *options, steps=6, device="cpu",
                          data=(f"--data=text:{text}",)) for part in ("", "-whole"))
        wait_for(lambda: f"step {step}/6" in run.text() or run.process.poll() is not None)
        run.send(signal.SIGINT)
        code, said = run.end(), run.text()
        assert whole.end() == 0, whole.text()
        if len(rows(run)) != step // 3 or "broken_off" not in rows(run)[-1]:
            continue
        assert code == (0 if step == 6 else 128 + signal.SIGINT), (code, said)
        assert rows(whole)[step // 3 - 1]["text"].startswith(rows(run)[-1]["text"]), (rows(run), rows(whole))
        done = subprocess.run([tg_run, "train", f"--resume={run.dir}"], capture_output=True, text=True)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert rows(run) == rows(whole), (rows(run), rows(whole))
        return
    raise AssertionError(f"the text was finished in each of {TRIES} runs: {said}")


def main():
    tg_run, model, text, folder = sys.argv[1:5]
    for step in (3, 6):
        in_a_text(tg_run, model, text, folder, step)
    print("texts are made up for")


main()
