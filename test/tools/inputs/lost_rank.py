# SPDX-License-Identifier: Apache-2.0
"""lost_rank.py SIGNAL RANK COMMAND…: starts the command, sends the rank's process a signal once the run has printed a
step, and prints what the job then says, its exit code, and whether any process is left after 30 seconds. With `SUSPEND`
all ranks are stopped for 6 seconds and go on for 3, as where a machine is suspended, before the rank is interrupted."""
import os
import signal
import subprocess
import sys
import threading
import time


def ranks():
    """Processes of this job by rank."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if environ.get(b"LOST_RANK") == str(os.getpid()).encode() and b"OMPI_COMM_WORLD_RANK" in environ and state != "Z":
            found[int(environ[b"OMPI_COMM_WORLD_RANK"])] = int(pid)
    return found


name, rank, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       env={**os.environ, "LOST_RANK": str(os.getpid())})
lines = []
stepped = threading.Event()


def read():
    for line in job.stdout:
        lines.append(line)
        if line.startswith("step "):
            stepped.set()


reader = threading.Thread(target=read, daemon=True)
reader.start()
if not stepped.wait(60):
    job.kill()
    sys.exit("no step: " + "".join(lines))
if name == "SUSPEND":
    name = "SIGINT"
    for sent, seconds in ((signal.SIGSTOP, 6), (signal.SIGCONT, 3)):
        for pid in ranks().values():
            os.kill(pid, sent)
        time.sleep(seconds)
if ranks():
    os.kill(ranks()[rank], getattr(signal, name))
begin = time.monotonic()
try:
    code = job.wait(30)
except subprocess.TimeoutExpired:
    job.kill()
    sys.exit("still there after 30 s: " + "".join(lines[-10:]))
reader.join(5)
left = ranks()
for pid in left.values():
    os.kill(pid, signal.SIGKILL)
print("".join(line for line in lines if not line.startswith("step ")))
print(f"exit code {code}, {len(left)} processes left, {'in time' if time.monotonic() - begin < 30 else 'late'}")
