#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_links.sh BIN LIB: checks that tg-grad, tg-adam, tg-sgd, tg-fuse and tg-plan, and the libraries in LIB that
# they need, contain no part of a shader compiler or of Vulkan. As a test of the search itself, it must find both in
# tools that do need them.
set -uo pipefail
bin=$1 lib=$2
status=0

needed() { readelf -dW "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; }

# parts TOOL: prints the tool's file and the project's own shared libraries that it needs, directly or indirectly.
parts() {
  local todo=("$bin/$1") seen=" " file name
  while [ ${#todo[@]} -gt 0 ]; do
    file=${todo[-1]}
    unset 'todo[-1]'
    [[ $seen == *" $file "* ]] && continue
    seen+="$file "
    echo "$file"
    for name in $(needed "$file"); do
      [ -e "$lib/$name" ] && todo+=("$lib/$name")
    done
  done
}

# traces TOOL PATTERN: prints the names of shared libraries and symbols in the tool's parts that match.
traces() {
  local part
  for part in $(parts "$1"); do
    { needed "$part"; nm "$part" | awk '{print $NF}'; } | grep -E "$2" | head -n 3
  done
}
shaders='^(libshaderc|libSPIRV|libglslang|shaderc_|spv(Create|Destroy)?Context|spvValidate)'
vulkan='^(libvulkan|vkCreate|vkGet|volk)'

complain() {
  echo "links: $1"
  status=1
}
for tool in tg-grad tg-adam tg-sgd tg-fuse tg-plan tg-spirv-emit tg-run; do
  [ -x "$bin/$tool" ] || complain "$bin/$tool is not there"
done
[ $status -eq 0 ] || exit 1
for tool in tg-grad tg-adam tg-sgd tg-fuse tg-plan; do
  found=$(traces $tool "$shaders|$vulkan" | tr '\n' ' ')
  [ -z "$found" ] || complain "$tool holds $found"
done
[ -n "$(traces tg-spirv-emit "$shaders")" ] || complain "no shader compiler found in tg-spirv-emit"
[ -n "$(traces tg-run "$vulkan")" ] || complain "no Vulkan found in tg-run"
exit $status
