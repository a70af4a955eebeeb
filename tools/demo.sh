#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, trains a character GPT on a text of this machine, and prints a sample.
# Fails unless the loss falls below 2.3 nats. A model that knows only the preceding letter reaches 2.42.
set -euo pipefail
if [ $# -gt 0 ]; then
  echo "usage: tools/demo.sh" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
. tools/packages.sh
. tools/configure.sh

ended="failed"
trap 'echo "demo: $ended"' EXIT

text=/usr/share/common-licenses/GPL-3
out=build/demo
bin=build/release/bin
steps=600
bound=2.3

echo "== packages"
installMissing "$build_packages"

echo "== build"
configure release -DTG_TESTS=OFF
cmake --build --preset release -j "$(nproc)" --target tg-run gpt-gen

# Always Mesa's CPU device, even on a machine with a GPU.
device=cpu

echo "== the model"
mkdir -p "$out"
[ -r "$text" ] || { echo "demo: $text cannot be read" >&2; exit 1; }
vocab=$(od -An -v -tu1 -w1 "$text" | sort -u | wc -l)
"$bin/gpt-gen" --vocab="$vocab" --layers=2 --heads=4 --width=64 --block=64 --batch=16 > "$out/gpt.tgir"
echo "$out/gpt.tgir: $(wc -l < "$out/gpt.tgir") lines, a vocabulary of $vocab characters"

echo "== train on $text"
rm -rf "$out/run"  # of an earlier demo
"$bin/tg-run" train "$out/gpt.tgir" --data="text:$text" --steps="$steps" --lr=2e-3 --log-every=50 \
  --device="$device" --run-dir="$out/run" | tee "$out/train.log"

# The last line of the run: `600 steps in 125.0 s | mean loss of the last 20 steps 1.5446`.
read -r seconds loss < <(sed -nE 's/^[0-9]+ steps in ([0-9.]+) s \| mean loss .* (\S+)$/\1 \2/p' "$out/train.log") || true
if ! awk -v loss="${loss:-none}" -v bound="$bound" 'BEGIN { exit !(loss ~ /^[0-9.]+$/ && loss + 0 < bound) }'; then
  ended="failed: the mean loss of the last 20 steps is ${loss:-not told}, not below $bound"
  exit 1
fi

# A model this small, trained this briefly, spells words, but its sentences have no meaning.
parameters=$(sed -nE 's/.*\| parameters ([0-9]+) \|.*/\1/p' "$out/train.log")
echo "== a sample: what $((parameters / 1000)) thousand parameters know of English after $steps steps"
"$bin/tg-run" sample "$out/run" --device="$device" --tokens=200

ended="loss $loss after $steps steps in $seconds s; the run is in $out/run"
