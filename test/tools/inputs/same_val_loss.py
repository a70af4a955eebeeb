# SPDX-License-Identifier: Apache-2.0
"""Whether tg-run eval of a run's checkpoints says the losses of metrics.jsonl: same_val_loss.py RUN STEP..."""
import json
import math
import subprocess
import sys

run, *steps = sys.argv[1:]
rows = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
printed = {row["step"]: row["val_loss"] for row in rows if "val_loss" in row}
for step in map(int, steps):
    done = subprocess.run(["tg-run", "eval", f"{run}/ckpt/step_{step:08}", "--json"], capture_output=True, text=True, check=True)
    out = json.loads(done.stdout)
    assert out["step"] == step
    note = ""
    if out["perplexity"] is not None:
        assert math.isclose(out["perplexity"], math.exp(printed[step]), rel_tol=1e-12)
        note = ", perplexity"
    # JSON has the shortest text that reads back as the same double, so equal numbers are equal bits.
    print("equal:" if out["loss"] == printed[step] else f"not {out['loss']} but", printed[step], end=note + "\n")
