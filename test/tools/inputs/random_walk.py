# SPDX-License-Identifier: Apache-2.0
"""Command lines made at random: random_walk.py TG_RUN TG_OPT SOURCES FOLDER COUNT [SEED]. Verbs, flags, values and
files of the wrong kinds; each ends in 0 to 4 within 20 s, and prints a line of error where it is not 0. Prints what
does not, and a line of figures."""
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

tg_run, tg_opt, sources, folder, count = sys.argv[1:6]
tg_run, tg_opt = shutil.which(tg_run), shutil.which(tg_opt)
random.seed(int(sys.argv[6]) if len(sys.argv) > 6 else 1)
folder = Path(folder)
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
for name in ("affine.tgir", "small.tgir", "noisy.tgir", "bad.tgir"):
    shutil.copy(f"{sources}/{name}", folder)
(folder / "empty").write_text("")
(folder / "text.txt").write_text("the quick brown fox\n" * 40)
(folder / "noise.npy").write_bytes(bytes(range(256)))
(folder / "dir").mkdir()
files = ["affine.tgir", "small.tgir", "noisy.tgir", "bad.tgir", "empty", "text.txt", "noise.npy", "dir", "none", "-", "mlp",
         "run", "run/ckpt", ".", "/dev/null"]
values = ["0", "1", "-1", "2", "1e9", "1e400", "nan", "inf", "", "x", "a=b", "x=rand(1)", "x=0", "x=@noise.npy", "text:text.txt",
          "append-grad", "append-grad,append-adam{lr=1e-3}", "append-adam{lr=-1}", "fuse,plan", "warmup(2, 1e-3)", "auto", "interp",
          "lavapipe", "gpu", "train", "predict", "@train", "w", "3s", "run", "out.bin", "[1,2]", "{", "'\"", "\u00e9"]


def flags_of(verb):
    text = subprocess.run([tg_run, verb, "--help"], capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"--[a-z][a-z-]+", text)) - {"--help", "--validation"})


verbs = re.findall(r"^  ([a-z-]+)  ", subprocess.run([tg_run, "--help"], capture_output=True, text=True).stdout, flags=re.M)
known = {verb: flags_of(verb) for verb in verbs}
opt = sorted(set(re.findall(r"--[a-z][a-z-]+", subprocess.run([tg_opt, "--help"], capture_output=True, text=True).stdout)))


def line():
    if random.random() < 0.25:
        words, flags = [tg_opt, "--crash-reproducer=none"], opt
    else:
        verb = random.choice(verbs)
        words, flags = [tg_run, verb], known[verb]
        if "--device" in flags and verb not in ("bench", "tune"):
            words.append("--device=interp")
        if verb in ("train", "bench", "profile", "tune"):
            words.append("--steps=20" if "--steps" in flags else "--rounds=1")
    for _ in range(random.randrange(3)):
        words.append(random.choice(files))
    for _ in range(random.randrange(4)):
        flag = random.choice(flags)
        words.append(flag if random.random() < 0.3 else f"{flag}={random.choice(values + files)}")
    return words


wrong = 0
codes = {}
for number in range(int(count)):
    words = line()
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", timeout=20, stdin=subprocess.DEVNULL)
        code, error = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        code, error = "more than 20 s", ""
    codes[code] = codes.get(code, 0) + 1
    good = code in (0, 1, 2, 3, 4) and "bug in the compiler" not in error and "terminate" not in error
    if good and code in (1, 2) and not re.search(r"error: |inspect: |warning: |DAMAGED|damaged|differs", error + done.stdout):
        good = False
    if not good:
        wrong += 1
        print("WRONG", code, " ".join(words[:1] + [repr(word) for word in words[1:]]))
        print("\n".join("    " + text for text in error.splitlines()[-4:]))
print(f"{count} command lines, {wrong} of them wrong; codes", dict(sorted(codes.items(), key=str)))
