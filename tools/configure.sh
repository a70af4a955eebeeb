# SPDX-License-Identifier: Apache-2.0
# Defines the function that configures a build. Sourced by demo.sh and test.sh.

# configure PRESET [OPTION of cmake…]: configures build/PRESET. A new folder compiles sources in batches, for the
# fastest first build. An existing folder keeps its setting, since separate sources are faster to rebuild.
configure() {
  local preset=$1 fresh=()
  shift
  [ -e "build/$preset/CMakeCache.txt" ] || fresh=(-DTG_QUICK_BUILD=ON)
  cmake --preset "$preset" "${fresh[@]}" "$@"
}
