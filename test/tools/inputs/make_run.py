# SPDX-License-Identifier: Apache-2.0
"""Writes a run directory with all its files: make_run.py DIR [STEPS [SEED]]. The numbers are made up, and the
same every time."""
import json
import math
import os
import random
import sys

directory = sys.argv[1]
steps, seed = [int(word) for word in (sys.argv[2:] + ["400", "7"][len(sys.argv) - 2:])]
random.seed(seed)
os.makedirs(os.path.join(directory, "ckpt", "step_00000100"), exist_ok=True)


def write(name, text):
    with open(os.path.join(directory, name), "w") as file:
        file.write(text)


rows, time, speed = [], 0.0, 40 + seed
for step in range(1, steps + 1):
    ms = speed * random.uniform(0.9, 1.1)
    time += ms / 1000
    fall = math.exp(-step / (steps / 5))
    loss = 1.4 + seed / 100 + 2.8 * fall + random.gauss(0, 0.08)
    rate = 3e-4 * min(1, step / (0.1 * steps)) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
    rows.append({"step": step, "time": time, "loss": loss, "norm": 0.4 + 3 * fall * random.uniform(0.5, 1.5),
                 "lr": rate, "ms": ms, "items_per_s": 2048 / ms * 1000})
    if step % (steps // 10) == 0:
        rows.append({"step": step, "time": time, "val_loss": 1.55 + seed / 100 + 2.6 * fall + 0.2 * (step / steps) ** 3})
write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
write("config.toml", f'steps={steps}\nseed={seed}\ndata="text:input.txt"\nset="lr=3e-4"\nckpt-every="10m"\n')
write("env.json", json.dumps({
    "device": "llvmpipe (LLVM 15.0.6, 256 bits)", "driver": "llvmpipe 22.3.6", "why": "the only device", "version": "0.1.0",
    "seed": seed, "parameters": 804096, "started": "2026-01-02T03:04:05Z", "unit": "tok",
    "command": f"tg-run train gpt-micro.tgir --data=text:input.txt --steps={steps} --seed={seed}"}))
live = [{"value": f"h{i}", "bytes": 4 * 8 * 64 * 128 * (1 + i % 5), "type": f"tensor<8x64x{128 * (1 + i % 5)}xf32>",
         "source": f"gpt-micro.tgir:{20 + i}:5"} for i in range(24)]
kernels = [{"function": "train", "kernel": f"k{i:04}_{kind}", "label": f"{kind} of block {i % 4}", "dispatches": 1 + i % 3,
            "bytes": 65536 * (i + 1), "flops": 2 * 10**6 * (i + 1) ** 2, "source": f"gpt-micro.tgir:{30 + i}:5"}
           for i, kind in enumerate(["matmul", "softmax", "layer_norm", "gelu", "reduce"] * 6)]
peak = sum(one["bytes"] for one in live)
write("plan.json", json.dumps({"memory": {
    "persistent_bytes": 12 * 804096, "io_bytes": 4096, "arena_bytes": peak + 65536, "lower_bound_bytes": peak,
    "peak": {"bytes": peak, "at": "k0004_reduce of @train", "live": live}}, "kernels": kernels}))
texts = ["ROMEO: xq zt", "ROMEO: the and of", "ROMEO: What say you to </script> & <b>the moon</b>?\n\nJULIET: Nothing at all."]
write("samples.jsonl", "".join(json.dumps({"step": (i + 1) * steps // 3, "prompt": "ROMEO:", "text": text}) + "\n"
                               for i, text in enumerate(texts)))
