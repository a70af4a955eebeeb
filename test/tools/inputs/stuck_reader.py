# SPDX-License-Identifier: Apache-2.0
"""stuck_reader.py TG_RUN AFFINE FOLDER: a training that waits for the reader of its standard output ends when it is told."""
import fcntl
import os
import select
import signal
import subprocess
import sys
import time

tg_run, model, folder = sys.argv[1:]
SECONDS = 300  # for what takes a few, on a machine with other work

reader, writer = os.pipe()
fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 16384)
run = subprocess.Popen([tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam",
                        "--data=x=rand(1),y=0", f"--run-dir={folder}/stuck", "--steps=1000000000", "--log-every=1"],
                       stdout=writer, stderr=subprocess.PIPE, text=True)
end = time.monotonic() + SECONDS
while select.select([], [writer], [], 0)[1]:  # until the pipe is full
    assert time.monotonic() < end and run.poll() is None, "the pipe does not fill"
    time.sleep(0.1)
run.send_signal(signal.SIGTERM)
try:
    errors = run.communicate(timeout=SECONDS)[1]
finally:
    run.kill()
saved = "saved" if os.path.isdir(f"{folder}/stuck/ckpt") and os.listdir(f"{folder}/stuck/ckpt") else "lost"
print(run.returncode, saved + errors[errors.find(": its"):].rstrip())
