#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the layout, names and sizes of the sources, and their includes.
#   tools/lint.sh [--all] [BASE]   runs clang-tidy on the files changed since BASE (default: the branch point
#                                  from origin/main, else the parent commit), or on all files
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

all=0
base=
for option in "$@"; do
  case $option in
    --all) all=1 ;;
    -*) echo "usage: tools/lint.sh [--all] [BASE]" >&2; exit 2 ;;
    *) base=$option ;;
  esac
done
max_lines=600
failures=0

complain() {
  echo "lint: $1"
  failures=$((failures + 1))
}

sources() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

changed() {
  if [ "$all" -eq 0 ] && [ -z "$base" ]; then
    base=$(git merge-base HEAD origin/main 2>/dev/null) || base=
    # On main itself the branch point is HEAD, and the commit under test would not be checked.
    if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD~1); fi
  fi
  if [ "$all" -eq 1 ] || [ -z "$base" ]; then
    sources '*.cpp'
  else
    { git diff --name-only --diff-filter=d "$base" -- '*.cpp'
      git ls-files --others --exclude-standard -- '*.cpp'; } | sort -u
  fi
}

if ! git rev-parse -q --is-inside-work-tree >/dev/null; then
  echo "lint: needs a git checkout" >&2
  exit 1
fi
mapfile -t code < <(sources '*.h' '*.cpp')
mapfile -t texts < <(sources '*.h' '*.cpp' '*.def' '*.py' '*.py.in' '*.sh' '*.tgir' '*.test' '*.md' '*CMakeLists.txt')

if [ ${#code[@]} -gt 0 ]; then
  clang-format --dry-run -Werror "${code[@]}" || complain "layout: run clang-format -i on the files above"
fi

# Tables (*.def) have one row per entry, so their length is not limited.
for file in "${code[@]}" $(sources '*.py' '*.sh'); do
  lines=$(wc -l < "$file")
  [ "$lines" -le "$max_lines" ] || complain "$file has $lines lines, more than $max_lines"
done

marks='\b(TO''DO|FIX''ME|X''XX)\b'
if [ ${#texts[@]} -gt 0 ] && grep -nE "$marks" "${texts[@]}"; then
  complain "open work belongs in an issue or in a test marked XFAIL"
fi

mapfile -t unlicensed < <(grep -L 'SPDX-License-Identifier: Apache-2.0' "${code[@]}" \
  $(sources '*.def' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt'))
[ ${#unlicensed[@]} -eq 0 ] || complain "no SPDX line: ${unlicensed[*]}"

# These files must access operands and attributes by name (ir/op_view.h), not by position or string.
places='(\.|->)(realAttr|intAttr|flag|word|ints)\("|\b(in|shape|wants)\([1-9]\)|\b(in|composite)\[[1-9]\]'
mapfile -t named < <(sources 'ir/infer*' 'ir/decompose*' 'ir/access*' 'ir/verify*' 'passes/*.cpp' 'passes/*.h' 'runtime/interp/eval_*' \
  'codegen/emit_*' 'codegen/lower*' 'codegen/product*' 'codegen/schedule*' 'codegen/triangle*' | grep -v '^passes/kernel/')
if grep -nE "$places" "${named[@]}"; then
  complain "operands and attributes have names: ir/op_view.h"
fi

if python3 tools/check_layers.py; then :; else complain "includes against the layers"; fi

# The example of bundles is left out, as it uses the names of the C interface with which it is shipped.
mapfile -t tidy < <(changed | grep -vx 'runtime/bundle/example\.cpp')
if [ ${#tidy[@]} -gt 0 ]; then
  # Use a folder in which nothing is built, because build/release may compile sources in batches (TG_QUICK_BUILD).
  if ! cmake --preset release -B build/lint >/dev/null; then
    complain "clang-tidy needs a configured build"
  else
    echo "clang-tidy on ${#tidy[@]} files"
    # The database has GCC's options, some of which clang does not know. A finding is a line that names a check, or
    # a compile error, because checks do not run on a source that does not compile.
    findings=$(printf '%s\0' "${tidy[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build/lint --quiet \
      --extra-arg=-Wno-unknown-warning-option 2>/dev/null | grep -E '\[(readability|bugprone|misc|performance|clang-diagnostic-error)')
    if [ -n "$findings" ]; then
      printf '%s\n' "$findings" | sort -u
      complain "clang-tidy"
    fi
  fi
fi

echo "lint: ${#code[@]} sources, $failures complaints"
[ "$failures" -eq 0 ]
