# SPDX-License-Identifier: Apache-2.0
"""lost_rank.py SIGNAL RANK COMMAND…: starts the command, sends the rank's process a signal once the run has printed a
step and, with --ckpt-every, saved one, and prints what the job then says, its exit code, and how many processes are left. With `SUSPEND` all ranks are
stopped for longer than the timeout of 8 seconds, as where a machine is suspended, and go on for a few before the rank is
interrupted. A job that neither steps nor ends for minutes has failed, however busy the machine is."""
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
seen = threading.Event()
awaited = "saved " if any(word.startswith("--ckpt-every") for word in command) else "step "
SECONDS = 300


def read():
    for line in job.stdout:
        lines.append(line)
        if line.startswith(awaited):
            seen.set()


reader = threading.Thread(target=read, daemon=True)
reader.start()


def wait(over):
    """Whether `over` came true within a time that is enough for it."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if over():
            return True
        time.sleep(0.05)
    return False


def wait_for_step():
    seen.clear()
    if not wait(lambda: seen.is_set() or job.poll() is not None):
        job.kill()
        sys.exit("no step: " + "".join(lines[-10:]))


wait_for_step()
if name == "SUSPEND":
    name = "SIGINT"
    for sent, seconds in ((signal.SIGSTOP, 12), (signal.SIGCONT, 3)):
        for pid in ranks().values():
            os.kill(pid, sent)
        time.sleep(seconds)
    wait_for_step()
if ranks():
    os.kill(ranks()[rank], getattr(signal, name))
try:
    code = job.wait(SECONDS)
except subprocess.TimeoutExpired:
    job.kill()
    sys.exit(f"still there after {SECONDS} s: " + "".join(lines[-10:]))
reader.join(SECONDS)
wait(lambda: not ranks())  # the launcher may end before them
left = ranks()
for pid in left.values():
    os.kill(pid, signal.SIGKILL)
print("".join(line for line in lines if not line.startswith("step ")))
print(f"exit code {code}, {len(left)} processes left")
