#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh BUILD WORK: makes the Debian packages of a build in WORK, looks into them, unpacks them and runs what is
# in them.
set -euo pipefail
build=$1
work=$2
root=$(cd "$(dirname "$0")/../.." && pwd)

fail() {
  echo "deb.sh: $1" >&2
  exit 1
}

rm -rf "$work"
mkdir -p "$work"
# Compressing takes longer than the rest of the test.
(cd "$work" && cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" -D CPACK_DEBIAN_COMPRESSION_TYPE=none) \
  > "$work/log" 2>&1 || { cat "$work/log"; fail "cpack failed"; }
tools=$(echo "$work"/tensorgrad_*.deb)
dev=$(echo "$work"/tensorgrad-dev_*.deb)

# holds PACKAGE PATH…: each is a file of the package.
holds() {
  local package=$1 path
  shift
  dpkg-deb -c "$package" | awk '{print $6}' > "$work/contents"
  for path in "$@"; do
    grep -qx "\./usr/$path" "$work/contents" || fail "$(basename "$package") lacks /usr/$path"
  done
}
holds "$tools" bin/tg-run bin/tg-opt bin/tg-grad bin/tg-adam bin/tg-sgd bin/tg-fuse bin/tg-plan bin/tg-spirv-emit \
  bin/gpt-gen \
  share/man/man1/tg-run.1.gz share/man/man1/tg-run-train.1.gz share/man/man1/tg-opt.1.gz \
  share/man/man1/tg-spirv-emit.1.gz share/bash-completion/completions/tg-run share/zsh/vendor-completions/_tg-run \
  share/tensorgrad/targets/lavapipe.json share/doc/tensorgrad/README.md share/doc/tensorgrad/docs/training.md \
  share/doc/tensorgrad/docs/examples/sin.tgir share/doc/tensorgrad/docs/examples/pass-project/CMakeLists.txt \
  share/doc/tensorgrad/copyright share/doc/tensorgrad/changelog.gz
if grep -E '/(gen-|.*_tests)|\.a$|/include/' "$work/contents"; then fail "these do not belong into it"; fi
holds "$dev" include/tensorgrad/ir/parser.h include/tensorgrad/runtime/train/trainer.h \
  share/doc/tensorgrad-dev/copyright
grep -q 'libtensorgrad\.a$' "$work/contents" || grep -q 'libtensorgrad_ir\.a$' "$work/contents" ||
  fail "no library in $(basename "$dev")"
grep -q 'tensorgrad-config\.cmake$' "$work/contents" || fail "no CMake package in $(basename "$dev")"

# Whoever gets a package gets the notices of all that is linked into it.
for package in "$tools" "$dev"; do
  dpkg-deb --fsys-tarfile "$package" | tar -xO --wildcards './usr/share/doc/*/copyright' > "$work/copyright"
  for project in tensorgrad shaderc glslang SPIRV-Tools volk CLI11 fmt 'JSON for Modern C++' xxHash zlib; do
    grep -q "^$project" "$work/copyright" || fail "$(basename "$package") has no notice of $project"
  done
done

depends=$(dpkg-deb -f "$tools" Depends)
for library in libc6 libvulkan1; do
  [[ $depends == *$library* ]] || fail "it does not depend on $library but on: $depends"
done
[[ $(dpkg-deb -f "$tools" Version) == "$(sed -n 's/^project(tensorgrad VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")" ]] ||
  fail "version $(dpkg-deb -f "$tools" Version)"

dpkg -x "$tools" "$work/root"
cd "$work/root/usr/share/doc/tensorgrad"
bin=$work/root/usr/bin
"$bin/tg-run" --version | grep -q '^tensorgrad 0' || fail "tg-run --version"
"$bin/tg-opt" --append-grad --append-adam --fuse docs/examples/sin.tgir | grep tg.fused > "$work/fused" || fail "tg-opt"
"$bin/tg-grad" docs/examples/sin.tgir | "$bin/tg-adam" --lr=1e-3 | "$bin/tg-fuse" | "$bin/tg-plan" > "$work/planned.tgir"
"$bin/tg-run" exec docs/examples/line.tgir --entry=train --device=interp --input=x=8x2xf32=1 --input=y=0 2>/dev/null |
  grep -q '^loss=f32=' || fail "tg-run exec"
[[ $(bash --norc "$root/test/tools/inputs/complete.bash" "$work/root/usr/share/bash-completion/completions/tg-run" \
  tg-run train --on-nan = '') == "offered: stop skip" ]] || fail "completion"
echo "$(basename "$tools"): $(stat -c %s "$tools") bytes; $(basename "$dev"): $(stat -c %s "$dev") bytes"
