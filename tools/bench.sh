#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the release preset, times the standard workloads (tg-run bench), and prints tables of the results.
#   tools/bench.sh [--gpu] [--json=FILE] [--against=OLD.json] [--bin=DIR] [WORKLOAD…]
#   --gpu      use the device that tg-run chooses, with the large workloads too; by default Mesa's CPU device
#   --json     save the results in this file
#   --against  also print ratios to the results in such a file
#   --bin      use the programs in this folder instead of building them
set -euo pipefail
usage() { sed -n '3,8s/^# *//p' "$0" >&2; exit 2; }

top=$(cd "$(dirname "$0")/.." && pwd)
bin=
json=
against=
device=cpu
workloads=()
large=()
for option in "$@"; do
  case $option in
    --gpu) device=auto large=(gpt-char gpt2-124m) ;;
    --json=?*) json=$(realpath -m "${option#*=}") ;;
    --against=?*) against=$(realpath -m "${option#*=}") ;;
    --bin=?*) bin=$(realpath -m "${option#*=}") ;;
    -*) usage ;;
    *) workloads+=("$option") ;;
  esac
done
[ ${#workloads[@]} -gt 0 ] || workloads=(mlp cnn gpt-nano gpt-micro "${large[@]}")

if [ -z "$bin" ]; then
  cd "$top"
  . tools/packages.sh
  { installMissing "$build_packages"
    cmake --preset release
    cmake --build --preset release -j "$(nproc)" --target tg-run; } >&2
  bin=$top/build/release/bin
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for workload in "${workloads[@]}"; do
  # A separate process for each: drivers read some settings when they are loaded, and these depend on the workload.
  "$bin/tg-run" bench "$workload" --device="$device" --compile --results="$work/results.json" >&2 || status=$?
done
[ -e "$work/results.json" ] || exit "$status"
"$bin/tg-run" bench --table="$work/results.json"
[ -z "$json" ] || cp "$work/results.json" "$json"
if [ -n "$against" ]; then
  echo
  "$bin/tg-run" bench --table="$work/results.json" --against="$against"
fi
exit "$status"
