# SPDX-License-Identifier: Apache-2.0
# Installs the build, then configures, builds and runs the consumer against what was installed, and the project
# with a pass of its own that is installed as an example.
#   cmake -DBUILD=<build> -DSOURCE=<test/consumer> -DWORK=<folder> -DCOMPILER=<c++> -P run.cmake
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()
file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
step(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_PREFIX_PATH=${WORK}/installed)
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/build/consumer)

set(project ${WORK}/installed/share/doc/tensorgrad/docs/examples/pass-project)
step(${CMAKE_COMMAND} -S ${project} -B ${WORK}/pass -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER}
  -DCMAKE_PREFIX_PATH=${WORK}/installed)
step(${CMAKE_COMMAND} --build ${WORK}/pass)
step(ctest --test-dir ${WORK}/pass --output-on-failure --no-tests=error)

# What is no plug-in, or one of another version, is refused by name before anything runs.
function(refused file why)
  foreach(tool "tg-opt" "tg-run;exec")
    list(POP_FRONT tool name)
    execute_process(COMMAND ${WORK}/installed/bin/${name} ${tool} --load-pass-plugin=${file} ${project}/test/squares.tgir
      RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE output)
    if(NOT status EQUAL 2 OR NOT output MATCHES "${why}")
      message(FATAL_ERROR "${name} --load-pass-plugin=${file} ended with ${status}:\n${output}")
    endif()
  endforeach()
endfunction()
refused(${WORK}/absent.so "absent[.]so.*[Nn]o such file")
refused(${project}/squares.cpp "squares[.]cpp.*(invalid ELF header|file too short)")
refused(${WORK}/build/libwrapped.so "libwrapped[.]so is not a pass plug-in")
refused(${WORK}/build/newer.so "newer[.]so is a pass plug-in of version 1001, and this tool takes version 1")
