# SPDX-License-Identifier: Apache-2.0
# Figures of bench for a step of the whole batch, and for the same step in four parts, chosen and said.
import json
import sys

whole, chosen, said = (json.load(open(path)) for path in sys.argv[1:])
assert (whole["parts"], chosen["parts"], said["parts"]) == (1, 4, 4)
assert whole["steps"] == chosen["steps"] == said["steps"] == 20
for row in (chosen, said):
    assert row["items"] == whole["items"] == 8 * 32
    for loss in ("first_loss", "last_loss"):
        assert abs(row[loss] - whole[loss]) < 1e-4, (loss, row[loss], whole[loss])
    # Products take the same multiplications in any parts; the rest is small beside them.
    assert 0.9 < row["flops"] / whole["flops"] < 1.3, (row["flops"], whole["flops"])
    # Four times the kernels of a part, and those of the update.
    assert 3 * whole["kernels"] < row["kernels"] < 5 * whole["kernels"] + 8, (row["kernels"], whole["kernels"])
assert chosen["arena_bytes"] <= 800 << 10 < whole["arena_bytes"]
assert whole["first_loss"] - whole["last_loss"] > 0.01
