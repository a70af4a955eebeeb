# SPDX-License-Identifier: Apache-2.0
# `cpack` in the build folder makes tensorgrad_VERSION_ARCH.deb and tensorgrad-dev_VERSION_ARCH.deb.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tensorgrad)
set(CPACK_PACKAGE_CONTACT "tensorgrad developers <developers@tensorgrad.invalid>")
set(CPACK_PACKAGE_VENDOR "tensorgrad developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler and trainer of neural networks on Vulkan")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL tools dev)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/tools/package/deb_files.cmake)
set(CPACK_TG_SOURCE ${PROJECT_SOURCE_DIR})  # for that script

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME tensorgrad)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
# The loader is opened at run time, so that shlibdeps does not see it.
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS libvulkan1)
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS mesa-vulkan-drivers)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
"A model is text in a tensor IR. Passes append the gradient and the optimizer,
group ops into kernels, plan memory and emit SPIR-V; tg-run trains the result
on any Vulkan device, or runs it in a reference interpreter.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME tensorgrad-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libfmt-dev, libshaderc-dev, libvulkan-dev, libvulkan-volk-dev, libxxhash-dev, nlohmann-json3-dev, pkg-config, spirv-tools, zlib1g-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS tensorgrad)
set(CPACK_COMPONENT_DEV_DESCRIPTION
"Headers and static libraries, found by CMake's find_package(tensorgrad): IR,
passes, code generation, and sessions that train.")
include(CPack)
