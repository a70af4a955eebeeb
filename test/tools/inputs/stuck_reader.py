# SPDX-License-Identifier: Apache-2.0
"""stuck_reader.py TG_RUN AFFINE FOLDER pipe|terminal: a training that waits for the reader of its standard output, or at
a terminal that was stopped as by Ctrl-S, ends when it is told."""
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time

tg_run, model, folder, kind = sys.argv[1:]
terminal = kind == "terminal"
SECONDS = 300  # for what takes a few, on a machine with other work

reader, writer = os.openpty() if terminal else os.pipe()
if not terminal:
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 16384)
run = subprocess.Popen([tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam",
                        "--data=x=rand(1),y=0", f"--run-dir={folder}/{kind}", "--steps=1000000000",
                        f"--log-every={1000000 if terminal else 1}"],
                       stdout=writer, stderr=writer if terminal else subprocess.PIPE, text=True)
end = time.monotonic() + SECONDS
if terminal:
    shown = b""
    while b"eta" not in shown.rpartition(b"\r")[2]:  # until the bar stands
        shown += os.read(reader, 65536)
    termios.tcflow(writer, termios.TCOOFF)
while select.select([], [writer], [], 0)[1]:  # until the pipe is full
    assert time.monotonic() < end and run.poll() is None, "the pipe does not fill"
    time.sleep(0.1)
run.send_signal(signal.SIGTERM)
try:
    errors = run.communicate(timeout=SECONDS)[1] or ""
finally:
    run.kill()
saved = "saved" if os.path.isdir(f"{folder}/{kind}/ckpt") and os.listdir(f"{folder}/{kind}/ckpt") else "lost"
print(run.returncode, saved + errors[errors.find(": its"):].rstrip())
