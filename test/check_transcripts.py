#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that pages show with their output, and compares.

    check_transcripts.py ROOT PAGE.md...

A block of ```text that begins with `$ COMMAND` shows the whole output; one behind `<!-- shows: COMMAND -->` shows a
part of it, where an ellipsis (\u2026) stands for anything in a line, and alone for any lines. Commands whose output depends on
a device, those of tg-run but for --device=interp, are passed over. The programs are those on PATH; ROOT is the folder
they run in.
"""
import re
import subprocess
import sys


def transcripts(path):
    """The line, the command, its output and whether that is all, of each."""
    lines, start, shows, text = None, 0, "", False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if not line.startswith("```"):
            if lines is not None:
                lines.append(line)
            else:
                marked = re.fullmatch(r"<!-- shows: (.*) -->\n", line)
                shows = marked.group(1) if marked else ""
        elif lines is None:
            lines, start, text = [], number, line == "```text\n"
        else:
            if shows:
                yield start, shows, lines, False
            elif text and lines and lines[0].startswith("$ "):
                yield start, lines[0][2:].rstrip("\n"), lines[1:], True
            lines, shows = None, ""


def stands_in(wanted, output):
    pattern = ""
    for line in wanted:
        pattern += r"(?:.*\n)*?" if line.strip() == "\u2026" else r".*".join(map(re.escape, line.split("\u2026")))
    return re.search("^" + pattern, output, re.MULTILINE) is not None


def main(root, pages):
    ran = wrong = 0
    for page in pages:
        for line, command, wanted, whole in transcripts(page):
            if "tg-run" in command and "--device=interp" not in command:
                continue
            ran += 1
            typed = re.sub(r"\bbuild/release/bin/", "", command)
            output = subprocess.run(["bash", "-c", typed], cwd=root, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT).stdout
            if output == "".join(wanted) if whole else stands_in(wanted, output):
                continue
            wrong += 1
            print(f"{page}:{line}: the command prints something else\n$ {typed}\n{output}", file=sys.stderr)
    if not ran:
        print("no page shows a command with its output", file=sys.stderr)
    return 1 if wrong or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
