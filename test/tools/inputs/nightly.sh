#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nightly.sh BIN FOLDER [COUNT]: what tg-run-train-faults.test and tg-run-export-manifest.test do a part of. Every file
# operation of a training fails in each way; COUNT (5000) damaged files of a run, of a bundle and of a tuning.
set -e
inputs=$(cd "$(dirname "$0")" && pwd)
export PATH="$1:$PATH" TENSORGRAD_CACHE=
count=${3:-5000}
rm -rf "$2" && mkdir -p "$2/manifests" && cd "$2"
python3 "$inputs/rows.py" .
data="x=@$PWD/x.npy,y=@$PWD/y.npy" model=$inputs/affine.tgir passes='append-grad,append-adam{lr=0.05}'
cc -shared -fPIC -O1 "$inputs/file_faults.c" -o faults.so -ldl
for first in 1 2 3 4; do
  python3 "$inputs/run_faults.py" tg-run "$PWD/faults.so" "$model" "$data" "$PWD/faults" 1 $first
done
python3 "$inputs/run_mutants.py" tg-run "$model" "$data" "$PWD/mutants" "$count" 7

tg-run train "$model" --device=cpu --pipeline="$passes" --data="$data" --steps=1 --run-dir=run > log
tg-run export run --device=cpu -o bundle >> log
c++ -std=c++17 -I"$inputs/../../.." "$inputs/open_bundles.cpp" bundle/tensorgrad_bundle.cpp -ldl -o open
python3 "$inputs/manifest.py" mutants bundle/manifest.json manifests "$count" 7
./open bundle cpu manifests "$count" 2>> log

tg-run tune "$model" --device=cpu --rounds=1 --pipeline="$passes" -o tuning.txt --json > tuning.json
python3 "$inputs/other_schedules.py" tuning.json tuning.txt
python3 "$inputs/tuning_mutants.py" tg-opt "$model" tuning.txt tunings "$count" 7
