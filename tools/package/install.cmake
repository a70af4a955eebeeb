# SPDX-License-Identifier: Apache-2.0
# What `cmake --install BUILD --prefix P` puts where. Two components: `tools` are the programs with their man
# pages, completion and documents; `dev` is what find_package(tensorgrad) needs.

# The programs themselves: tg_tool in tools/CMakeLists.txt.
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools)
install(DIRECTORY docs/targets DESTINATION ${CMAKE_INSTALL_DATADIR}/tensorgrad COMPONENT tools)
# README.md beside docs/, as in the repository, so that its links lead somewhere.
install(FILES README.md LICENSE NOTICES DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.tgir" PATTERN "examples/*.cpp" PATTERN "examples/*.h"
  REGEX "/pass-project/")

# find_package(tensorgrad) gives the libraries, each with the headers of its room.
set(libraries ir lower passes codegen runtime gpt_gen opt_driver driver)
list(TRANSFORM libraries PREPEND tensorgrad_)
install(TARGETS ${libraries} tensorgrad EXPORT tensorgrad ARCHIVE COMPONENT dev
  LIBRARY COMPONENT tools NAMELINK_COMPONENT dev)
install(DIRECTORY ir passes codegen runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensorgrad COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN ir/limits.inc)
install(FILES tools/main.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensorgrad/tools COMPONENT dev)
install(FILES tools/package/lit.common.py DESTINATION ${CMAKE_INSTALL_DATADIR}/tensorgrad COMPONENT dev)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tensorgrad)
install(EXPORT tensorgrad NAMESPACE tensorgrad:: FILE tensorgrad-targets.cmake DESTINATION ${package} COMPONENT dev)
include(CMakePackageConfigHelpers)
set(TG_TOOLS_DIR ${CMAKE_INSTALL_FULL_BINDIR})
set(TG_LIT_CONFIG ${CMAKE_INSTALL_FULL_DATADIR}/tensorgrad/lit.common.py)
file(WRITE ${PROJECT_BINARY_DIR}/tensorgrad-config.cmake.in [[
@PACKAGE_INIT@
# The folder of tg-opt and tg-run, and the lit configuration to build one's own on.
set_and_check(tensorgrad_LIT_CONFIG "@PACKAGE_TG_LIT_CONFIG@")
set(tensorgrad_TOOLS_DIR "@PACKAGE_TG_TOOLS_DIR@")

# tensorgrad_add_pass_plugin(name a.cpp …): name.so, for --load-pass-plugin of tg-opt and tg-run. It takes the
# library's functions from the tool that loads it: a copy of its own would have a registry of its own.
function(tensorgrad_add_pass_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_include_directories(${name} PRIVATE $<TARGET_PROPERTY:tensorgrad::passes,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(${name} PRIVATE fmt::fmt)
endfunction()

include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
find_dependency(Threads)
find_dependency(ZLIB)
find_dependency(fmt)
find_dependency(nlohmann_json)
pkg_check_modules(xxhash REQUIRED QUIET IMPORTED_TARGET libxxhash)
include(${CMAKE_CURRENT_LIST_DIR}/shaderc.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/tensorgrad-targets.cmake)
]])
configure_package_config_file(${PROJECT_BINARY_DIR}/tensorgrad-config.cmake.in
  ${PROJECT_BINARY_DIR}/tensorgrad-config.cmake INSTALL_DESTINATION ${package}
  PATH_VARS TG_TOOLS_DIR TG_LIT_CONFIG NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(tensorgrad-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tensorgrad-config.cmake ${PROJECT_BINARY_DIR}/tensorgrad-config-version.cmake
  tools/package/shaderc.cmake DESTINATION ${package} COMPONENT dev)
