# SPDX-License-Identifier: Apache-2.0
# Run by CPack on the installed files of each component, before they become packages: what Debian wants
# elsewhere or compressed.
find_program(shlibdeps dpkg-shlibdeps)
if(NOT shlibdeps)
  # CPack would go on, and the package would depend on no library.
  message(FATAL_ERROR "dpkg-shlibdeps, which tells the libraries a package depends on, is missing: install dpkg-dev")
endif()

function(compress file)
  execute_process(COMMAND gzip -9n ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB roots LIST_DIRECTORIES true ${CPACK_TEMPORARY_DIRECTORY}/*)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, when that is set
foreach(root IN LISTS roots)
  cmake_path(GET root FILENAME component)
  set(name ${CPACK_DEBIAN_TOOLS_PACKAGE_NAME})
  if(component STREQUAL dev)
    set(name ${CPACK_DEBIAN_DEV_PACKAGE_NAME})
  endif()
  set(share ${root}/usr/share)
  set(doc ${share}/doc/${name})
  if(EXISTS ${share}/zsh/site-functions)
    file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
  endif()
  file(GLOB pages ${share}/man/man1/*.1)
  foreach(page IN LISTS pages)
    compress(${page})
  endforeach()
  # Debian wants a reference to its own copy of the Apache licence; the exceptions to it are only in ours.
  file(REMOVE ${doc}/LICENSE ${doc}/NOTICES)
  file(READ ${CPACK_TG_SOURCE}/NOTICES notices)
  file(READ ${CPACK_TG_SOURCE}/LICENSE licence)
  string(FIND "${licence}" "LLVM Exceptions to the Apache" exceptions)
  if(exceptions LESS 0)
    message(FATAL_ERROR "LICENSE has no LLVM Exceptions")
  endif()
  string(SUBSTRING "${licence}" ${exceptions} -1 licence)
  file(WRITE ${doc}/copyright "tensorgrad is Copyright 2026 the tensorgrad developers.\n\n"
    "Licensed under the Apache License 2.0 (/usr/share/common-licenses/Apache-2.0) with these exceptions:\n\n"
    "${licence}\n${notices}")
  file(WRITE ${doc}/changelog "${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=low\n\n"
    "  * Version ${CPACK_PACKAGE_VERSION}.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  compress(${doc}/changelog)
endforeach()
