#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shaderc.sh WORK: shaderc is found and linked without the pkg-config files of glslang and of SPIRV-Tools, and where
# SPIRV-Tools is not there at all the error says so. Files are hidden by a folder of links to all the others.
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)/shaderc
work=$1
rm -rf "$work"

# with STATE HIDDEN [OPTION...]: configures the project in a folder of its own; HIDDEN is a pattern of .pc files.
with() {
  local pc=$work/$1/pc
  mkdir -p "$pc"
  pkg-config --variable=pc_path pkg-config | tr : '\n' | while read -r folder; do
    [ ! -d "$folder" ] || find "$folder" -maxdepth 1 -name '*.pc'
  done | grep -vE "/($2)\$" | xargs ln -sf -t "$pc"
  PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR=$pc cmake -S "$source" -B "$work/$1" "${@:3}" > "$work/$1/log" 2>&1
}
complain() {
  echo "shaderc: $1"
  cat "$2"
  exit 1
}
works() {
  with "$@" || complain "is not found without $2" "$work/$1/log"
  cmake --build "$work/$1" > "$work/$1/log" 2>&1 || complain "is not linked without $2" "$work/$1/log"
  "$work/$1/found" || complain "compiles nothing without $2" "$work/$1/log"
}
works whole none
works no-glslang 'spirv[.]pc|glslang[.]pc'
works no-files 'spirv[.]pc|glslang[.]pc|SPIRV-Tools[.]pc'
if with nothing 'SPIRV-Tools[.]pc' -DTG_SPIRV_TOOLS_OPT=; then  # as if the search had found none
  complain "is found without SPIRV-Tools" "$work/nothing/log"
fi
grep -q 'SPIRV-Tools is missing' "$work/nothing/log" || complain "does not say what is missing" "$work/nothing/log"
