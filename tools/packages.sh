# SPDX-License-Identifier: Apache-2.0
# The Debian packages that building and testing need, and a function that installs the missing ones.
# Sourced by demo.sh and test.sh.

# One package on each line, with its purpose.
build_packages="
g++                   the C++20 compiler
cmake                 the build system
ninja-build           runs the build
pkg-config            finds shaderc and xxhash
libvulkan-dev         Vulkan headers and loader
libvulkan-volk-dev    loads Vulkan's functions at run time
libshaderc-dev        compiles kernels to SPIR-V
spirv-tools           validates SPIR-V
libcli11-dev          command lines
libfmt-dev            text formatting
nlohmann-json3-dev    JSON
libxxhash-dev         hashes of kernels and names
zlib1g-dev            compressed data files
mesa-vulkan-drivers   a Vulkan device on the CPU (lavapipe)
libopenmpi-dev        joins several devices
openmpi-bin           launches their processes
"
test_packages="
llvm-19-tools             lit, FileCheck and not
libgtest-dev              unit tests
vulkan-validationlayers   checks every use of Vulkan
python3                   runs lit and the checks of the tree
clang-format              checks the layout of the code
clang-tidy                checks its names
chromium                  opens the pages of runs; its SwiftShader is another Vulkan driver
dpkg-dev                  finds out what the Debian packages depend on
file                      tells it which files are programs
lld                   links the builds in less time
groff-base                renders the man pages
"

# installMissing TABLE…: installs the missing packages of the tables, and prints which and why.
installMissing() {
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: nothing is installed, these are needed:"
    printf '%s\n' "$@" | sed '/^$/d; s/^/  /'
    return 0
  fi
  local missing=() name why
  while read -r name why; do
    [ -n "$name" ] || continue
    dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q '^install ok installed$' && continue
    echo "missing: $name ($why)"
    missing+=("$name")
  done < <(printf '%s\n' "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  local asRoot=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "as root: apt-get install --no-install-recommends ${missing[*]}" >&2
      return 1
    fi
    asRoot=(sudo)
  fi
  echo "installing ${#missing[@]} packages with apt-get${asRoot[0]:+ through sudo}"
  local install='apt-get install -y -q --no-install-recommends "$@"'
  # A fresh image has no package lists.
  ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 || install="apt-get update -q && $install"
  "${asRoot[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "$install" sh "${missing[@]}"
}
