# SPDX-License-Identifier: Apache-2.0
# tensorgrad_shaderc is shaderc with glslang and SPIRV-Tools; TG_SHADERC_VERSIONS says which.
#
# Debian's libshaderc.so lacks the symbols of glslang and its "combined" archive holds no glslang, so there shaderc
# is linked from archives: its own, then glslang's, then those of SPIRV-Tools. Elsewhere shaderc is whole, and glslang
# need not be installed. shaderc is found by pkg-config; the other two also where they have no such file.
pkg_search_module(shaderc REQUIRED QUIET IMPORTED_TARGET shaderc_combined shaderc)
pkg_check_modules(spirv_tools QUIET IMPORTED_TARGET SPIRV-Tools)
pkg_check_modules(spirv QUIET IMPORTED_TARGET spirv)  # glslang's
set(TG_SHADERC_VERSIONS "${shaderc_VERSION} ${spirv_tools_VERSION} ${spirv_VERSION}")

add_library(tensorgrad_shaderc INTERFACE IMPORTED)
target_link_libraries(tensorgrad_shaderc INTERFACE PkgConfig::shaderc)
if(spirv_FOUND)
  target_link_libraries(tensorgrad_shaderc INTERFACE PkgConfig::spirv)
else()
  foreach(part SPIRV glslang MachineIndependent OSDependent HLSL OGLCompiler GenericCodeGen SPVRemapper)
    find_library(TG_GLSLANG_${part} ${part})
    mark_as_advanced(TG_GLSLANG_${part})
    if(TG_GLSLANG_${part})
      target_link_libraries(tensorgrad_shaderc INTERFACE ${TG_GLSLANG_${part}})
    endif()
  endforeach()
endif()
if(spirv_tools_FOUND)
  target_link_libraries(tensorgrad_shaderc INTERFACE PkgConfig::spirv_tools)
else()
  find_path(TG_SPIRV_TOOLS_INCLUDE spirv-tools/optimizer.hpp)
  find_library(TG_SPIRV_TOOLS_OPT SPIRV-Tools-opt)
  find_library(TG_SPIRV_TOOLS SPIRV-Tools)
  mark_as_advanced(TG_SPIRV_TOOLS_INCLUDE TG_SPIRV_TOOLS_OPT TG_SPIRV_TOOLS)
  if(NOT (TG_SPIRV_TOOLS_INCLUDE AND TG_SPIRV_TOOLS_OPT AND TG_SPIRV_TOOLS))
    message(FATAL_ERROR "SPIRV-Tools is missing: there is no SPIRV-Tools.pc for pkg-config, nor are "
      "spirv-tools/optimizer.hpp, libSPIRV-Tools-opt and libSPIRV-Tools found. Debian's package is spirv-tools.")
  endif()
  target_link_libraries(tensorgrad_shaderc INTERFACE ${TG_SPIRV_TOOLS_OPT} ${TG_SPIRV_TOOLS})
  target_include_directories(tensorgrad_shaderc INTERFACE ${TG_SPIRV_TOOLS_INCLUDE})
endif()
