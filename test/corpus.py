#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""corpus.py BIN OUT: what a build makes of every module of test/ and docs/ and of the workloads, at every stage.

For each module and target the passes up to kernels run, and each stage's text, or the error, becomes a line
`hash module target stage` of OUT. Two builds that compile the same write the same file:

  python3 test/corpus.py build/before/bin before.txt
  python3 test/corpus.py build/release/bin after.txt && diff before.txt after.txt

A change that means to leave kernels as they are shows it so. With --keep=DIR the texts stay in DIR, to be compared
where a line differs.
"""
import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ["lavapipe", "gpu", "gpu-coopmat"]
LOWER = "fuse{target=%s},plan,lower-kernels"
PIPELINES = {
    "train": "append-grad,append-adam," + LOWER,
    "forward": LOWER,
    "kernel": "lower-kernels",
    "text": "",
}
GPTS = {
    "gpt-nano": [],
    "gpt-wide": ["--layers=2", "--heads=8", "--width=512", "--block=256", "--batch=8", "--vocab=256"],
}


def lines(program, env, module, name, pipeline, target, keep):
    """The lines of one module, pipeline and target."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder, "tree")
        text = PIPELINES[pipeline]
        command = [program, f"--pass-pipeline={text % target if '%' in text else text}", str(module), "-o", os.devnull]
        command.append(f"--print-ir-tree-dir={tree}")
        try:
            ended = subprocess.run(command, capture_output=True, env=env, timeout=600)
            said = b"%d\n" % ended.returncode + ended.stderr.replace(str(module).encode(), b"MODULE")
        except subprocess.TimeoutExpired:
            said = b"timeout"
        found = [("messages", said)]
        if tree.is_dir():
            found += [(path.stem, path.read_bytes()) for path in sorted(tree.iterdir())]
        for stage, data in found:
            if keep:
                place = pathlib.Path(keep, name.replace("/", "_"), f"{pipeline}.{target}")
                place.mkdir(parents=True, exist_ok=True)
                (place / stage).write_bytes(data)
            yield f"{hashlib.sha256(data).hexdigest()[:16]} {name} {pipeline} {target} {stage}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("out")
    parser.add_argument("--keep", help="a folder for the texts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    program = shutil.which("tg-opt", path=os.path.abspath(options.bin))
    if not program:
        parser.error(f"no tg-opt in {options.bin}")
    env = dict(os.environ, TENSORGRAD_CACHE="")
    with tempfile.TemporaryDirectory() as folder:
        modules = {str(path.relative_to(ROOT)): path
                   for place in ("test", "docs") for path in sorted((ROOT / place).rglob("*.tgir"))}
        for name, size in GPTS.items():
            path = pathlib.Path(folder, name + ".tgir")
            with open(path, "wb") as out:
                subprocess.run([os.path.join(options.bin, "gpt-gen"), *size], stdout=out, check=True)
            modules[name] = path
        work = [(program, env, path, name, pipeline, target, options.keep)
                for name, path in modules.items()
                for pipeline, text in PIPELINES.items()
                for target in (TARGETS if "%" in text else TARGETS[:1])]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            done = list(pool.map(lambda job: list(lines(*job)), work))
    found = sorted(line for part in done for line in part)
    pathlib.Path(options.out).write_text("\n".join(found) + "\n")
    print(f"{len(found)} texts of {len(modules)} modules")


if __name__ == "__main__":
    main()
