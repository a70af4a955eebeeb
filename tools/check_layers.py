#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include of the top-level folders ("rooms") against the table of layers.

    tools/check_layers.py [ROOT]       checks the tree
    tools/check_layers.py --self-test  checks that each kind of bad include is found
"""
import pathlib
import re
import sys
import tempfile

ROOMS = ("ir", "passes", "codegen", "runtime", "tools", "test", "docs")
SUFFIXES = {".h", ".cpp", ".def", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)

# The files of codegen that turn regions into kernels. They are a separate library, below passes.
KERNELS = r"(emit_(loops|map|random|region|window)|fragment|index|lower|plain_region|product|schedule|split_matrices|tile|triangle).*"

# Patterns of files, each with what these may include besides their own room. The first match applies.
LAYERS = (
    (r"ir/.*", ()),
    (r"codegen/" + KERNELS, (r"ir/.*",)),
    (r"codegen/register\.(cpp|h)", (r"ir/.*", r"passes/.*")),
    (r"codegen/.*", (r"ir/.*",)),
    (r"passes/(spirv_emit|lower_kernels)\.cpp", (r"ir/.*", r"codegen/.*")),
    (r"passes/fuse(/\w+)?\.(cpp|h)", (r"ir/.*", r"codegen/schedule\.h")),
    (r"passes/.*", (r"ir/.*",)),
    (r"runtime/(ceilings|compile|matrix_units|session|tune)\.cpp", (r"ir/.*", r"passes/.*", r"codegen/.*")),
    (r"runtime/.*", (r"ir/.*",)),
    (r"(tools|test|docs)/.*", (r".*",)),
)
# These files may include only this part of their own room, since the rest is in a higher layer.
OWN_ROOM = {r"codegen/" + KERNELS: r"codegen/" + KERNELS}

# Files that the build generates.
GENERATED = {"ir/targets.inc", "runtime/profile_page.inc", "runtime/run_page.inc", "tensorgrad_bundle.h"}

# External libraries, each with the rooms that may use it.
EXTERNAL = (
    (r"(vulkan/.*|volk\.[hc])", ("runtime", "tools", "test")),
    (r"shaderc/.*", ("codegen", "test")),
    (r"spirv(-tools)?/.*", ("codegen", "tools", "test")),
    (r"CLI/.*", ("tools", "test", "docs")),
    (r"gtest/.*", ("test",)),
)


def complaintOf(path, quoted, angled):
    """The reason why the file `path` may not have this include, or None."""
    room = path.split("/")[0]
    if angled:
        for library, rooms in EXTERNAL:
            if re.fullmatch(library, angled) and room not in rooms:
                return f"only {', '.join(rooms)} may include <{angled}>"
        return None
    # The loader of bundles is compiled outside of the tree.
    if path.startswith(("runtime/bundle/", "test/tools/inputs/")) and quoted == "tensorgrad_bundle.h":
        return None
    if quoted.split("/")[0] not in ROOMS or "/" not in quoted:
        return f'"{quoted}" is not a path from the root of the repository'
    for files, allowed in LAYERS:
        if re.fullmatch(files, path):
            own = OWN_ROOM.get(files, re.escape(room) + "/.*")
            if any(re.fullmatch(pattern, quoted) for pattern in (own, *allowed)):
                return None
            return f'{room}/ may not include "{quoted}"'
    return "belongs to no room"


def check(root):
    """All violations as `file:line: reason`, and the number of includes checked."""
    complaints, seen = [], 0
    for room in ROOMS:
        for file in sorted((root / room).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path, text = file.relative_to(root).as_posix(), file.read_text()
            for match in INCLUDE.finditer(text):
                seen += 1
                quoted, angled = match.groups()
                reason = complaintOf(path, quoted, angled)
                if not reason and quoted and quoted not in GENERATED and not (root / quoted).is_file():
                    reason = f'"{quoted}" does not exist'
                if reason:
                    line = text.count("\n", 0, match.start(match.lastindex)) + 1
                    complaints.append(f"{path}:{line}: error: {reason}")
    return complaints, seen


BAD = {
    "ir/a.cpp": '#include "passes/pass.h"',
    "ir/b.h": "#include <vulkan/vulkan.h>",
    "ir/c.cpp": '#include "type.h"',
    "ir/d.cpp": '#include "ir/missing.h"',
    "passes/grad.cpp": '#include "codegen/schedule.h"',
    "passes/fuse.cpp": '#include "codegen/glsl.h"',
    "passes/plan.cpp": '#include "runtime/session.h"',
    "codegen/glsl.cpp": '#  include "runtime/session.h"',
    "codegen/schedule.cpp": '#include "codegen/glsl.h"',
    "codegen/kernel.cpp": '#include "passes/pass.h"',
    "codegen/schedule_cost.cpp": '#include "passes/pass.h"',
    "codegen/lower_map.cpp": '#include "codegen/shader.h"',
    "runtime/device.cpp": '#include "codegen/glsl.h"',
    "runtime/data/npy.cpp": '#include "passes/pass.h"',
    "runtime/interp/eval.cpp": "#include <shaderc/shaderc.hpp>",
}
GOOD = {
    "ir/type.h": "#include <string>",
    "passes/pass.h": '#include "ir/type.h"',
    "passes/fuse/flat.cpp": '#include "codegen/schedule.h"',
    "passes/spirv_emit.cpp": '#include "codegen/glsl.h"',
    "codegen/glsl.h": "#include <shaderc/shaderc.hpp>",
    "codegen/schedule.h": '#include "ir/type.h"',
    "codegen/register.cpp": '#include "passes/pass.h"',
    "runtime/session.h": "",
    "runtime/session.cpp": '#include "codegen/glsl.h"',
    "runtime/compile.cpp": '#include "passes/pass.h"',
    "runtime/vulkan/device.cpp": "#include <volk.h>",
    "tools/driver/opt.cpp": '#include "passes/pass.h"',
    "test/unit/ir_test.cpp": '#include "runtime/session.h"',
}


def selfTest():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {**BAD, **GOOD}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("// first line\n" + text + "\n")
        complaints, _ = check(root)
    found = {complaint.split(":")[0] for complaint in complaints}
    wrongLine = [c for c in complaints if c.split(":")[1] != "2"]
    problems = [f"not found: {path}" for path in BAD if path not in found]
    problems += [f"found without reason: {path}" for path in GOOD if path in found]
    return problems + [f"wrong line: {c}" for c in wrongLine]


def main(args):
    if args == ["--self-test"]:
        problems = selfTest()
        summary = f"layers: {len(BAD)} bad includes, {len(problems)} problems"
    else:
        root = pathlib.Path(args[0]) if args else pathlib.Path(__file__).resolve().parent.parent
        problems, seen = check(root)
        summary = f"layers: {seen} includes, {len(problems)} against the table"
        if not seen:
            problems = ["no include found at all"]
    print(*problems, summary, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
