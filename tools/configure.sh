# SPDX-License-Identifier: Apache-2.0
# The one call that configures a build. Sourced by demo.sh and test.sh.

# configure PRESET [OPTION of cmake…]: a build folder that is not there yet is to be ready soon, which takes batches
# of sources; one that is there stays as it is, because sources by themselves are faster to build again.
configure() {
  local preset=$1 fresh=()
  shift
  [ -e "build/$preset/CMakeCache.txt" ] || fresh=(-DTG_QUICK_BUILD=ON)
  cmake --preset "$preset" "${fresh[@]}" "$@"
}
