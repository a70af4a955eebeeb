# SPDX-License-Identifier: Apache-2.0
"""leaking_ranks.py LOG FIRST EVERY COUNT COMMAND…: starts a job and looks at each rank's process whenever the run's log has
step FIRST, FIRST + EVERY, … (COUNT spans), which ends long before the job does. A leak grows in every span: in the span with
the least growth, memory may grow by less than 16 KiB and neither threads nor open files may become more. What grows once,
say a library's pages read for the first time, is none."""
import os
import subprocess
import sys
import time


def ranks(job):
    """What each rank's process holds, by rank: KiB of memory, threads, files."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            if environ.get(b"LEAKING_RANKS") != job or b"OMPI_COMM_WORLD_RANK" not in environ:
                continue
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                status = dict(line.split(":", 1) for line in file)
            found[int(environ[b"OMPI_COMM_WORLD_RANK"])] = (
                int(status["VmRSS"].split()[0]), int(status["Threads"]), len(os.listdir(f"/proc/{pid}/fd")))
        except (OSError, KeyError):
            continue
    return found


def await_step(process, log, step):
    """Until the run's log has the line of a step."""
    while process.poll() is None:
        time.sleep(0.005)
        if os.path.exists(log):
            with open(log, encoding="utf-8") as file:
                if f"step {step}/" in file.read():
                    return
    sys.exit(f"the job ended with {process.returncode} before step {step}")


log, first, every, count, command = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5:]
mark = str(os.getpid())
seen = []
with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "LEAKING_RANKS": mark}) as process:
    for step in range(first, first + count * every + 1, every):
        await_step(process, log, step)
        seen.append(ranks(mark.encode()))
assert process.returncode == 0, f"exit code {process.returncode}"
assert len(seen[0]) > 1 and all(held.keys() == seen[0].keys() for held in seen), seen
for rank in seen[0]:
    held = [at[rank] for at in seen]
    grown = [min(after[i] - before[i] for before, after in zip(held, held[1:])) for i in range(3)]
    print(f"rank {rank}: KiB, threads, files {held}")
    assert grown[0] < 16 and grown[1] <= 0 and grown[2] <= 0, f"rank {rank}: {grown} in every {every} steps"
