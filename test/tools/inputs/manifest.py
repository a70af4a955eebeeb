# SPDX-License-Identifier: Apache-2.0
"""manifest.py edit FILE PATTERN TEXT: replaces a pattern in a bundle's manifest and hashes it anew.
manifest.py mutants FILE FOLDER COUNT [SEED]: COUNT files 0.json, 1.json, … in FOLDER, each the manifest with one value
changed and a hash that is right."""
import json
import random
import re
import sys

MASK = (1 << 64) - 1
P = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def turn(x, bits):
    return (x << bits | x >> (64 - bits)) & MASK


def xxh64(data):
    def step(total, word):
        return turn((total + word * P[1]) & MASK, 31) * P[0] & MASK

    def load(at, size):
        return int.from_bytes(data[at:at + size], "little")

    at, h = 0, P[4]
    if len(data) >= 32:
        v = [(P[0] + P[1]) & MASK, P[1], 0, -P[0] & MASK]
        while len(data) - at >= 32:
            v = [step(v[i], load(at + 8 * i, 8)) for i in range(4)]
            at += 32
        h = (turn(v[0], 1) + turn(v[1], 7) + turn(v[2], 12) + turn(v[3], 18)) & MASK
        for lane in v:
            h = ((h ^ step(0, lane)) * P[0] + P[3]) & MASK
    h = (h + len(data)) & MASK
    while len(data) - at >= 8:
        h = (turn(h ^ step(0, load(at, 8)), 27) * P[0] + P[3]) & MASK
        at += 8
    while len(data) - at >= 4:
        h = (turn(h ^ load(at, 4) * P[0] & MASK, 23) * P[1] + P[2]) & MASK
        at += 4
    while at < len(data):
        h = turn(h ^ data[at] * P[4] & MASK, 11) * P[0] & MASK
        at += 1
    h = (h ^ h >> 33) * P[1] & MASK
    h = (h ^ h >> 29) * P[2] & MASK
    return h ^ h >> 32


def hashed(text):
    """The manifest with the first line that its text asks for."""
    rest = text[text.index("\n"):]
    return '{"xxh64": "%016x",' % xxh64(rest.encode()) + rest


def places(value, at=()):
    yield at
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], at + (key,))


def mutant(manifest, rng):
    copy = json.loads(json.dumps(manifest))
    # The kind of a kernel's binding is a word, which nothing but its code could prove wrong.
    at = rng.choice([place for place in places(copy) if place and not (place[0] == "kernels" and "bindings" in place[2:-1])])
    holder = copy
    for key in at[:-1]:
        holder = holder[key]
    old = holder[at[-1]]
    numbers = [0, 1, -1, 2, 3, 64, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 47, (1 << 63) - 1, -1 << 63, 1 << 64]
    if isinstance(old, int) and not isinstance(old, bool):
        numbers += [old + 1, old - 1, old * 2, -old, old + 4]
    if at[0] == "buffers":  # memory of that size would be made
        numbers = [number for number in numbers if not 1 << 30 <= number <= 1 << 33]
    new = rng.choice([rng.choice(numbers), rng.choice(numbers), "", "io", None, [], {}, True, [[]] * 3, "remove", "again"])
    if new == "remove":
        del holder[at[-1]]
    elif new == "again" and isinstance(holder, list):
        holder.append(old)
    else:
        holder[at[-1]] = new
    return copy


def main():
    text = open(sys.argv[2]).read()
    assert hashed(text) == text, "the hash of the manifest is another one"
    if sys.argv[1] == "edit":
        changed = re.sub(sys.argv[3], sys.argv[4], text)
        assert changed != text
        open(sys.argv[2], "w").write(hashed(changed))
        return
    manifest = json.loads(text)
    del manifest["xxh64"]
    rng = random.Random(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    for i in range(int(sys.argv[4])):
        body = "{\n" + json.dumps(mutant(manifest, rng), indent=1)[1:] + "\n"
        open(f"{sys.argv[3]}/{i}.json", "w").write(hashed(body))


main()
