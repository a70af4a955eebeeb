# What `cmake --install BUILD --prefix P` puts where. Two components: `tools` are the programs with their man
# pages, completion and documents; `dev` is what find_package(tensorgrad) needs.

# The programs themselves: tg_tool in tools/CMakeLists.txt.
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
install(DIRECTORY ${PROJECT_BINARY_DIR}/cli/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools)
install(DIRECTORY codegen/targets DESTINATION ${CMAKE_INSTALL_DATADIR}/tensorgrad COMPONENT tools)
# README.md beside docs/, as in the repository, so that its links lead somewhere.
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools
  FILES_MATCHING PATTERN "*.md" PATTERN "*.tgir" PATTERN "examples/*.cpp" PATTERN "examples/*.h")

# find_package(tensorgrad) gives the libraries, each with the headers of its room.
set(libraries ir schedule passes codegen runtime)
list(TRANSFORM libraries PREPEND tensorgrad_)
install(TARGETS ${libraries} tensorgrad EXPORT tensorgrad ARCHIVE COMPONENT dev)
install(DIRECTORY ir passes codegen runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tensorgrad COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN codegen/targets EXCLUDE)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tensorgrad)
install(EXPORT tensorgrad NAMESPACE tensorgrad:: FILE tensorgrad-targets.cmake DESTINATION ${package} COMPONENT dev)
file(CONFIGURE OUTPUT tensorgrad-config.cmake @ONLY CONTENT [[
include(CMakeFindDependencyMacro)
find_dependency(PkgConfig)
find_dependency(Threads)
find_dependency(ZLIB)
find_dependency(fmt)
find_dependency(nlohmann_json)
pkg_check_modules(xxhash REQUIRED QUIET IMPORTED_TARGET libxxhash)
pkg_check_modules(shaderc REQUIRED QUIET IMPORTED_TARGET shaderc_combined spirv)
include(${CMAKE_CURRENT_LIST_DIR}/tensorgrad-targets.cmake)
]])
include(CMakePackageConfigHelpers)
write_basic_package_version_file(tensorgrad-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tensorgrad-config.cmake ${PROJECT_BINARY_DIR}/tensorgrad-config-version.cmake
  DESTINATION ${package} COMPONENT dev)
