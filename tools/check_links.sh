#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_links.sh BIN: tg-grad, tg-adam, tg-sgd, tg-fuse and tg-plan hold no part of a shader compiler or of
# Vulkan. That the same search finds both in the tools that do need them shows that it can find.
set -uo pipefail
bin=$1
status=0

# traces TOOL PATTERN: shared libraries and symbols of the tool that match.
traces() {
  { readelf -dW "$bin/$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; nm "$bin/$1" | awk '{print $NF}'; } |
    grep -E "$2" | head -n 3
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
