#!/bin/bash
# Installs what is missing, builds, trains a character GPT on a text this machine has, prints a sample.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

ended="failed"
trap 'echo "demo: $ended"' EXIT

echo "== packages"
installMissing "$build_packages"

echo "== build"
cmake --preset release -DTG_TESTS=OFF
cmake --build --preset release -j "$(nproc)" --target tg-run gpt-gen

text=/usr/share/common-licenses/GPL-3
out=build/demo
mkdir -p "$out"

echo "== the model"
build/release/bin/gpt-gen > "$out/gpt.tgir"
echo "$out/gpt.tgir: $(wc -l < "$out/gpt.tgir") lines"

echo "== train on $text"
build/release/bin/tg-run train "$out/gpt.tgir" --data "text:$text" --steps 300 --run-dir "$out/run"

echo "== a sample"
build/release/bin/tg-run sample "$out/run"

ended="done; the run is in $out/run"
