# SPDX-License-Identifier: Apache-2.0
# The one call that configures a build. Sourced by demo.sh and test.sh.

# configure PRESET [OPTION of cmake…]: a build folder that is not there yet compiles its sources in batches, which
# takes half the time for all of them; one that is there stays as it is, because sources by themselves are faster to
# build again.
configure() {
  local preset=$1 fresh=()
  shift
  [ -e "build/$preset/CMakeCache.txt" ] || fresh=(-DCMAKE_UNITY_BUILD=ON)
  cmake --preset "$preset" "${fresh[@]}" "$@"
}
