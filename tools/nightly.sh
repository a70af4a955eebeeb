#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that take hours: the fuzzers under the sanitizers, with a new seed each time, and the tests that
# -DTG_NIGHTLY=ON adds. The last line is `N passed, N failed`. Inputs of findings are kept in build/nightly/findings.
#   tools/nightly.sh [HOURS]    total time for the fuzzers; 4 hours by default
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. tools/packages.sh

hours=${1:-4}
if [ $# -gt 1 ] || ! [[ $hours =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
  echo "usage: tools/nightly.sh [HOURS]" >&2
  exit 2
fi

passed=0
failed=0
jobs=$(nproc)
step() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name"; fi
}
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

installMissing "$build_packages" "$test_packages" || { failed=1; finish; }

# Separate build folders, in which nothing is rebuilt after edits, so compiling in batches is fastest.
quick=-DTG_QUICK_BUILD=ON

# Programs of test/fuzz. Each gets an equal share of the time.
fuzzers="fuzz_modules"
# With the checks that the preset leaves out.
sanitize="-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer"
cmake --preset asan -B build/nightly-asan $quick -DCMAKE_CXX_FLAGS="$sanitize" && cmake --build build/nightly-asan -j "$jobs" --target $fuzzers \
  || { failed=1; finish; }
findings=build/nightly/findings
mkdir -p "$findings"
count=$(wc -w <<< "$fuzzers")
seconds=$(awk "BEGIN { print int($hours * 3600 / $count) + 1 }")  # 0 would mean no limit
seed=${TG_FUZZ_SEED:-$(date +%s)}
for fuzzer in $fuzzers; do
  step "$fuzzer, seed $seed" env ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0 \
    "build/nightly-asan/bin/$fuzzer" --seed="$seed" --seconds="$seconds" --save="$findings"
done

cmake --preset release -B build/nightly $quick -DTG_NIGHTLY=ON && cmake --build build/nightly -j "$jobs" \
  || { failed=$((failed + 1)); finish; }
step "tests labelled nightly" ctest --test-dir build/nightly -L nightly --output-on-failure
finish
