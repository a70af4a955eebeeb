# SPDX-License-Identifier: Apache-2.0
"""extract_examples.py PAGE.md...: the ```mlir blocks of a page as one text for tg-opt --split-input-file.

Each block is a section. Lines keep their numbers, so that an error names the line of the page. With
--count, prints how many blocks the pages hold instead.
"""
import re
import sys


def sections(text):
    """Yields the lines of a page with everything outside of the blocks left blank."""
    inside = other = False
    for line in text.splitlines():
        fence = re.match(r"\s*```(\w*)", line)
        if not fence:
            yield line if inside else ""
        elif inside or other:
            inside = other = False
            yield ""
        else:
            inside = fence.group(1) == "mlir"
            other = not inside
            yield "// -----" if inside else ""
    if inside:
        sys.exit("a block does not end")


def main():
    count = sys.argv[1] == "--count"
    blocks = 0
    for path in sys.argv[1 + count:]:
        with open(path, encoding="utf-8") as file:
            lines = list(sections(file.read()))
        blocks += lines.count("// -----")
        if not count:
            print("\n".join(lines))
    if count:
        print(blocks)


main()
