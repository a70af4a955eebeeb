# SPDX-License-Identifier: Apache-2.0
"""terminal.py TG_RUN AFFINE FOLDER: trains at a terminal of some width, with a bar, and looks at what the terminal shows
in the end: the lines that were printed, whole, and nothing of the bar."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios

import misuse_files

CLEAR = "\r\x1b[K"
SECONDS = 300  # for what takes a few, on a machine with other work
BAR = re.compile(re.escape(CLEAR) + r"(\[[= ]+\] )?\d+/\d+ \| loss")


class Terminal:
    """Lines of at most `columns`; what is longer goes on in the next one."""

    def __init__(self, columns):
        self.columns, self.lines, self.joined, self.at = columns, [""], [False], 0

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", text, re.S):
            if part == "\r":
                self.at = 0
            elif part == "\n":
                self.end_line(False)
            elif part == "\x1b[K":
                self.lines[-1] = self.lines[-1][:self.at]
            elif part.startswith("\x1b"):
                raise AssertionError(f"the terminal does not know {part!r}")
            else:
                self.put(part)

    def put(self, letter):
        if self.at == self.columns:
            column = self.at
            self.end_line(True)
            self.at = 0 if column else self.at
        line = self.lines[-1].ljust(self.at)
        self.lines[-1] = line[:self.at] + letter + line[self.at + 1:]
        self.at += 1

    def end_line(self, goes_on):
        self.lines.append("")
        self.joined.append(goes_on)
        self.at = 0 if goes_on else self.at

    def resize(self, columns):
        self.columns, self.at = columns, min(self.at, columns - 1)
        self.lines[-1] = self.lines[-1][:columns]

    def text(self):
        """Lines as they were printed, wherever the terminal had to go on in the next one."""
        out = []
        for line, goes_on in zip(self.lines, self.joined):
            if goes_on:
                out[-1] += line
            else:
                out.append(line)
        return out


def set_columns(descriptor, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))


def stop(child):
    """Returns when none of the process's threads runs."""
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)


def at_terminal(command, folder, columns, react):
    """Runs the command at a terminal. `react(seen, master, terminal, child)` is asked after everything that it writes."""
    master, slave = pty.openpty()
    set_columns(slave, columns)
    # Else Ctrl-C throws away what was written and not read yet.
    modes = termios.tcgetattr(slave)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    terminal, seen = Terminal(columns), ""
    env = {name: value for name, value in os.environ.items() if name != "CI"}
    child = subprocess.Popen(command, cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=env,
                             preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
    os.close(slave)
    while True:
        ready, _, _ = select.select([master], [], [], SECONDS)
        assert ready, f"nothing for {SECONDS} s after {seen[-200:]!r}"
        try:
            new = os.read(master, 65536).decode()
        except OSError:  # the last one at the other end has gone
            break
        terminal.feed(new)
        seen += new
        react(seen, master, terminal, child)
    os.close(master)
    return child.wait(), seen, terminal


def check_frames(seen, columns):
    frames = [frame.split("\r")[0].split("\n")[0] for frame in seen.split(CLEAR)[1:]]
    bars = [frame for frame in frames if re.match(r"(\[|\d+/)", frame)]
    assert bars, f"no bar in {seen[:2000]!r}"
    assert max(map(len, bars)) < columns, (max(bars, key=len), columns)
    return bars


def check_end(terminal, folder, run, besides=()):
    """All that stands there are the run's own lines, and the ones named."""
    log = open(f"{folder}/{run}/log.txt").read().splitlines()
    # A terminal echoes Ctrl-C where the cursor stands, before the run hears of it.
    shown = [line.rstrip().removeprefix("^C") for line in terminal.text()]
    assert shown.pop() == "", f"the cursor is not at the start of a line: {terminal.lines[-1]!r}"
    rest = [line for line in shown if line not in log]
    assert all(any(re.match(pattern, line) for pattern in besides) for line in rest), rest
    assert [line for line in shown if line in log] == log, (shown, log)


def main():
    tg_run, affine, folder = sys.argv[1:4]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shutil.copy(affine, f"{folder}/m.tgir")
    rows = 4000
    nan = struct.pack("<f", float("nan"))
    misuse_files.write(folder, "x.npy", misuse_files.floats(rows, 2)[:-4] + nan)
    misuse_files.write(folder, "y.npy", misuse_files.floats(rows, 2))

    def command(run, *more, model="m.tgir", data="--data=x=rand(1),y=0"):
        return [tg_run, "train", model, "--device=interp", "--pipeline=append-grad,append-adam", data,
                f"--run-dir={run}", *more]

    def nothing(*_):
        pass

    for columns in (80, 40, 12):
        run = f"wide{columns}"
        code, seen, terminal = at_terminal(command(run, "--steps=900", "--log-every=300"), folder, columns, nothing)
        assert code == 0, seen
        bars = check_frames(seen, columns)
        assert (columns == 80) == (bars[0].startswith("[" + " " * 20)), bars[0]
        check_end(terminal, folder, run)

    # Narrower while it runs: bars drawn since then fit. The process stands still while the terminal changes, and ends
    # when a few more bars were seen.
    stopped, resized = [], []
    long = ("--steps=100000000", "--log-every=50000000")

    def narrow(seen, master, terminal, child):
        if not stopped and BAR.search(seen):
            stop(child)
            stopped.append(True)
        if stopped and not resized and not select.select([master], [], [], 1)[0]:
            set_columns(master, 30)
            terminal.resize(30)
            resized.append(len(seen))
            child.send_signal(signal.SIGCONT)
        elif len(resized) == 1 and seen[resized[0]:].count(CLEAR) > 4:
            os.write(master, b"\x03")
            resized.append(len(seen))

    code, seen, terminal = at_terminal(command("narrow", *long), folder, 80, narrow)
    assert code == 130 and resized, seen
    # One bar may have been under way, and the terminal echoes Ctrl-C.
    check_frames(CLEAR + seen[resized[0]:].split(CLEAR, 2)[2].replace("^C", ""), 30)

    # Ctrl-C: what the terminal echoes goes with the bar.
    asked = []

    def interrupt(seen, master, *_):
        if not asked and BAR.search(seen):
            os.write(master, b"\x03")
            asked.append(True)

    code, seen, terminal = at_terminal(command("stopped", *long), folder, 80, interrupt)
    assert code == 130, (code, seen[-500:])
    check_end(terminal, folder, "stopped")

    # A second one ends it at once, in the middle of a step if need be.
    def insist(seen, master, *_):
        if len(asked) == 1 and BAR.search(seen):
            os.write(master, b"\x03")
            asked.append(len(seen))
        elif len(asked) == 2 and seen[asked[1]:].rstrip("^C").endswith(CLEAR):
            os.write(master, b"\x03")
            asked.append(True)

    misuse_files.write(folder, "slow.tgir", open(affine).read().replace("4x2", "400000x2"))
    code, seen, terminal = at_terminal(command("killed", *long, model="slow.tgir"), folder, 80, insist)
    assert code in (-signal.SIGINT, 130), (code, seen[-500:])
    if code != 130:
        assert terminal.lines[-1].rstrip() in ("", "^C"), terminal.lines[-1]

    # An error has a line of its own.
    code, seen, terminal = at_terminal(command("bad", "--no-shuffle", "--steps=1000", "--log-every=500",
                                               data="--data=x=@x.npy,y=@y.npy"), folder, 80, nothing)
    assert code == 3 and BAR.search(seen), (code, seen[-500:])
    check_end(terminal, folder, "bad", [r"tg-run train: error: the loss is nan at step 1000;", r"note: input x is nan in row",
                                          r"note: parameter w"])
    print("bars of all widths leave nothing")


main()
