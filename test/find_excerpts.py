#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each ```cpp block of a page is an excerpt of one of the files; with --fence=WORD, each ```WORD block.

    find_excerpts.py [--fence=WORD] PAGE.md FILE...

Lines must follow each other as in the file, indentation and all; empty lines, #include and using namespace,
with which a reader's own file begins, are left out of the comparison.
"""
import sys


def meaningful(lines):
    kept = [line.rstrip() for line in lines]
    return [line for line in kept if line and not line.startswith(("#include", "using namespace"))]


def blocks(path, fence):
    start, lines = 0, []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if start and line.startswith("```"):
            yield start, lines
            start = 0
        elif start:
            lines.append(line)
        elif line.rstrip() == "```" + fence:
            start, lines = number, []


def main(page, files, fence):
    texts = ["\n" + "\n".join(meaningful(open(path, encoding="utf-8"))) + "\n" for path in files]
    count = missing = 0
    for start, lines in blocks(page, fence):
        count += 1
        wanted = "\n" + "\n".join(meaningful(lines)) + "\n"
        if not any(wanted in text for text in texts):
            print(f"{page}:{start}: no file has these lines", file=sys.stderr)
            missing += 1
    if not count:
        print(f"{page}: no block of {fence}", file=sys.stderr)
    return 1 if missing or not count else 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    fence = arguments.pop(0).split("=")[1] if arguments[0].startswith("--fence=") else "cpp"
    sys.exit(main(arguments[0], arguments[1:], fence))
