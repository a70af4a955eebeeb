# SPDX-License-Identifier: Apache-2.0
"""stuck_reader.py TG_RUN AFFINE FOLDER: a training that waits for the reader of its standard output ends when it is told."""
import array
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

tg_run, model, folder = sys.argv[1:]
SECONDS = 300  # for what takes a few, on a machine with other work

run = subprocess.Popen([tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam",
                        "--data=x=rand(1),y=0", f"--run-dir={folder}/stuck", "--steps=1000000000", "--log-every=1"],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
fcntl.fcntl(run.stdout, fcntl.F_SETPIPE_SZ, 16384)
end, before = time.monotonic() + SECONDS, -1
while True:
    # The pipe has stopped filling, and the run has begun.
    held = array.array("i", [0])
    fcntl.ioctl(run.stdout, termios.FIONREAD, held)
    if held[0] == before and before > 8000:
        break
    before = held[0]
    assert time.monotonic() < end, "the pipe does not fill"
    time.sleep(0.5)
run.send_signal(signal.SIGTERM)
errors = run.stderr.read()
code = run.wait(SECONDS)
saved = "saved" if os.path.isdir(f"{folder}/stuck/ckpt") and os.listdir(f"{folder}/stuck/ckpt") else "lost"
print(code, saved + errors[errors.find("; "):].rstrip())
