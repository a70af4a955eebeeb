# SPDX-License-Identifier: Apache-2.0
"""misuse.py TG_RUN AFFINE FOLDER [NAME]: uses tg-run wrongly in every way of the table. Each has to end with its exit
code and one line of error that matches, without results on stdout, and with every file as it was before."""
import contextlib
import ctypes
import fcntl
import hashlib
import os
import re
import subprocess
import sys

import misuse_files
from misuse_rows import ROWS

# What may stand on stderr beside the one line of the error.
AROUND = re.compile(r"(\S+: )?(note|warning): |resuming |the last good checkpoint is |\s|$")
# Signs of a program that fell over instead of saying what is wrong.
FALLEN = re.compile(r"terminate called|what\(\)|Assertion|Sanitizer|runtime error|core dumped|Traceback|bad_alloc|std::")
SECONDS = 60
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


def without_privileges():
    """Makes the program that is started next mind permissions even when root runs it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


known = {}  # the hash of each file that was read


def hash_of(path):
    """The hash of a file, which is read again only where its status changed: hundreds of rows look at the same files."""
    status = os.stat(path)
    key = path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    if key not in known:
        readable = status.st_mode & 0o400
        if not readable:
            os.chmod(path, 0o600)
        with open(path, "rb") as file:
            known[key] = hashlib.sha256(file.read()).hexdigest()
        if not readable:
            os.chmod(path, status.st_mode)
    return known[key]


def snapshot(folder):
    """Every file's hash and every folder and link below the folder."""
    found = {}
    for place, folders, files in os.walk(folder):
        found.update({os.path.relpath(os.path.join(place, name), folder): "folder" for name in folders})
        for name in files:
            path = os.path.join(place, name)
            found[os.path.relpath(path, folder)] = hash_of(path)
    return found


@contextlib.contextmanager
def locked(run):
    """Holds the run as a process that trains in it does."""
    descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


@contextlib.contextmanager
def small_disk(place):
    """A disk of 64 KiB; None where this user may mount none."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.mkdir(place)
    mounted = libc.mount(b"none", place.encode(), b"tmpfs", 0, b"size=64k") == 0
    yield mounted
    if mounted:
        libc.umount2(place.encode(), 2)
    os.rmdir(place)


def surroundings(row, folder):
    if row.lock:
        return locked(os.path.join(folder, row.lock))
    return small_disk(os.path.join(folder, "disk")) if row.disk else contextlib.nullcontext(True)


def complaints(row, done, before, after):
    """What is wrong with how the misuse ended, as lines."""
    errors = done.stderr.decode(errors="backslashreplace")
    out = done.stdout.decode(errors="backslashreplace")
    lines = errors.splitlines()
    # A place in a text is shown by its line and a caret below it.
    shown = [line for line, below in zip(lines, lines[1:]) if below.strip() == "^"]
    told = [line for line in lines if "error: " in line]
    found = []
    if done.returncode != row.code:
        found.append(f"exit code {done.returncode}, expected {row.code}")
    if len(told) != 1:
        found.append(f"{len(told)} lines of error, expected one")
    elif not re.search(row.says, told[0]):
        found.append(f"the error does not match {row.says!r}")
    found += [f"a line beside the error: {line!r}" for line in lines if line not in [*told, *shown, "^"] and not AROUND.match(line)]
    if FALLEN.search(errors + out):
        found.append("it fell over")
    if out and not (row.prints and re.search(row.prints, out)):
        found.append(f"results on stdout: {out[:200]!r}")
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name) and not re.match(row.leaves or "$^", name):
            found.append(f"{name} was " + ("made" if name not in before else "lost" if name not in after else "changed"))
    return found + [f"stderr | {line}" for line in lines] if found else []


def run(row, tg_run, folder):
    """The complaints about one row, or None where it cannot be tried."""
    with surroundings(row, folder) as ready:
        if ready is False:
            return None
        # On the disk of the row nothing is looked at: what it left there ends with the disk.
        before = snapshot(folder)
        try:
            done = subprocess.run([tg_run, *row.args], cwd=folder, input=b"", capture_output=True, timeout=SECONDS,
                                  env={**os.environ, **row.env}, preexec_fn=without_privileges)
        except subprocess.TimeoutExpired:
            return [f"it goes on for more than {SECONDS} s"]
        return complaints(row, done, before, snapshot(folder))


def main():
    tg_run, affine, folder = sys.argv[1:4]
    chosen = [row for row in ROWS if row.name in sys.argv[4:]] if sys.argv[4:] else ROWS
    assert len({row.name for row in ROWS}) == len(ROWS), "two rows have one name"
    misuse_files.prepare(tg_run, affine, folder)
    wrong = 0
    for row in chosen:
        found = run(row, tg_run, folder)
        if found is None:
            print(f"SKIPPED {row.name}: this user may not mount a disk")
        elif found:
            wrong += 1
            print(f"WRONG {row.name}: tg-run {' '.join(row.args)}", *found, sep="\n  ")
    print(f"{len(chosen)} misuses, {wrong} of them wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
