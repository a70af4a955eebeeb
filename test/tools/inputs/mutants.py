# SPDX-License-Identifier: Apache-2.0
"""Ways to damage a file."""
import re


def mutate(content, other, rng):
    """A changed copy of a file's bytes, and how it was changed; `other` is another file's."""
    content, at = bytearray(content), rng.randrange(max(1, len(content)))
    kind = rng.choice(["flip", "cut", "double", "zero", "number", "lines", "exchange", "noise"])
    if kind == "flip" and content:
        content[at] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[at:]
    elif kind == "double":
        content[at:at] = content[at:at + rng.randrange(1, 200)]
    elif kind == "zero":
        content[at:at + 64] = bytes(min(64, len(content) - at))
    elif kind == "number":
        found = list(re.finditer(rb"-?[0-9]+", bytes(content)))
        if found:
            one = rng.choice(found)
            content[one.start():one.end()] = rng.choice([b"0", b"-1", b"99999999999999999999", b"1e400", b"nan", b"\"\"", b"[]"])
    elif kind == "lines":
        lines = bytes(content).split(b"\n")
        rng.shuffle(lines)
        content = bytearray(b"\n".join(lines))
    elif kind == "exchange":
        content = bytearray(other)
    else:
        content[at:at + 16] = bytes(rng.randrange(256) for _ in range(16))
    return bytes(content), kind
