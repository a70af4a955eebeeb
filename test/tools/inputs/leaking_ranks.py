# SPDX-License-Identifier: Apache-2.0
"""leaking_ranks.py LOG FIRST LAST COMMAND…: starts a job and looks at each rank's process when the run's log has step FIRST
and step LAST, which is long before its end: memory must be the same within 1 MiB, threads and open files within 2."""
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


log, first, last, command = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
mark = str(os.getpid())
seen = []
with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "LEAKING_RANKS": mark}) as process:
    for step in (first, last):
        await_step(process, log, step)
        seen.append(ranks(mark.encode()))
assert process.returncode == 0, f"exit code {process.returncode}"
before, later = seen
assert len(before) > 1 and before.keys() == later.keys(), seen
for rank in before:
    grown = [after - start for start, after in zip(before[rank], later[rank])]
    assert grown[0] < 1024 and max(grown[1:]) <= 2, f"rank {rank}: {before[rank]}, later {later[rank]}"
print(f"{len(before)} ranks hold what they held: KiB, threads, files {later}, before {before}")
