# SPDX-License-Identifier: Apache-2.0
# PkgConfig::shaderc is shaderc with glslang and SPIRV-Tools; TG_SHADERC_VERSIONS says which.
#
# Debian's libshaderc.so lacks the symbols of glslang and its "combined" archive holds no glslang, so there shaderc
# is linked from archives: its own, then glslang's (spirv), which bring SPIRV-Tools along. Elsewhere shaderc is
# whole, and glslang need not be installed.
pkg_check_modules(spirv QUIET spirv)
if(spirv_FOUND)
  pkg_check_modules(shaderc REQUIRED QUIET IMPORTED_TARGET shaderc_combined spirv)
  set(TG_SHADERC_VERSIONS "${shaderc_shaderc_combined_VERSION} ${shaderc_spirv_VERSION}")
else()
  pkg_search_module(shaderc REQUIRED QUIET IMPORTED_TARGET shaderc_combined shaderc)
  pkg_check_modules(spirv_tools REQUIRED QUIET IMPORTED_TARGET SPIRV-Tools)
  target_link_libraries(PkgConfig::shaderc INTERFACE PkgConfig::spirv_tools)
  set(TG_SHADERC_VERSIONS "${shaderc_VERSION} ${spirv_tools_VERSION}")
endif()
