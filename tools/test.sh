#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, and runs all tests. The last lines are the failed tests, if any, with the end of
# their output, and then `N passed, N failed`.
#   --fast   skip the sanitizer build and the lint
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. tools/packages.sh
. tools/configure.sh

fast=0
for option in "$@"; do
  case $option in
    --fast) fast=1 ;;
    *) echo "usage: tools/test.sh [--fast]" >&2; exit 2 ;;
  esac
done

passed=0
failed=0
failures= # The text about failed tests that finish() prints.
jobs=$(nproc)
lit_jobs=$((jobs + jobs / 2)) # Some tests wait for other ranks, a signal or a browser.
lit=/usr/lib/llvm-19/build/utils/lit/lit.py

finish() {
  printf '%s' "$failures"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# step NAME COMMAND…: runs the command as one test.
step() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    failures+="FAILED: $name"$'\n'
    return 1
  fi
}

# suite NAME REPORT COMMAND…: runs the command and counts the cases in the JUnit report that it writes.
suite() {
  local name=$1 report=$2 counted good bad
  shift 2
  echo "== $name"
  mkdir -p "$(dirname "$report")"
  rm -rf "$report" "$(dirname "$report")/cases"
  "$@"
  local status=$?
  counted=$(python3 tools/count_results.py "$report" "$status")
  read -r good bad <<< "$counted"
  [ "${bad:-1}" -eq 0 ] || failures+="== $name"$'\n'"$(tail -n +2 <<< "$counted")"$'\n'
  echo "$name: ${good:=0} passed, ${bad:=1} failed"
  passed=$((passed + good))
  failed=$((failed + bad))
}

# build PRESET [OPTION of cmake…]
build() { configure "$@" && cmake --build --preset "$1" -j "$jobs"; }

# runSuites PRESET [OPTION of ctest…]: runs the unit tests and the lit tests of a build.
runSuites() {
  local preset=$1 dir=$PWD/build/$1
  shift
  suite "unit tests, $preset" "$dir/ctest.xml" \
    ctest --test-dir "$dir" -j "$jobs" --output-on-failure --output-junit "$dir/ctest.xml" "$@"
  suite "lit, $preset" "$dir/lit.xml" \
    python3 "$lit" -sv --no-progress-bar -j "$lit_jobs" --xunit-xml-output "$dir/lit.xml" "$dir/test"
}

echo "== packages"
if ! installMissing "$build_packages" "$test_packages"; then
  failed=1
  finish
fi

# All tests use the same device on every machine: Mesa's CPU device, unless the caller selects another driver.
if [ -z "${VK_ICD_FILENAMES:-}${VK_DRIVER_FILES:-}" ]; then
  for icd in /usr/share/vulkan/icd.d/lvp_icd*.json; do
    [ -e "$icd" ] && export VK_ICD_FILENAMES=$icd
  done
fi

# Tests that need no device run once: with sanitizers, if these run.
[ "$fast" -eq 1 ] && host=ON || host=OFF
step "build, release" build release -DTG_TEST_HOST=$host || finish
runSuites release

if [ "$fast" -eq 0 ]; then
  step "lint" tools/lint.sh
  step "build, asan" build asan && runSuites asan -L asan
fi
finish
