# What `cpack` makes (`make package`): a .tar.gz of everything and, where Debian's tools are, two .deb: comet with the program and the
# shared libraries, libcomet-dev with headers, static library, find_package(comet) and pkg-config files.

set(CPACK_PACKAGE_NAME comet)
set(CPACK_PACKAGE_VENDOR "The Comet authors")
set(CPACK_PACKAGE_CONTACT "The Comet authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Training of convolutional networks with compressed activations")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
string(TOLOWER "${PROJECT_NAME}-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" CPACK_PACKAGE_FILE_NAME)

set(CPACK_GENERATOR TGZ)
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(FILE_COMMAND file)
mark_as_advanced(DPKG_SHLIBDEPS FILE_COMMAND)
if(DPKG_SHLIBDEPS AND FILE_COMMAND)
    list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME comet)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "dataset-fashion-mnist, libcomet-dev")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "Comet trains convolutional networks on CPUs in a fraction of the usual
memory: activations are held compressed between forward and backward,
with error bounds chosen so that training does not suffer.
.
This package has the program comet, which also compresses tensors with a
strict error bound, and the shared libraries.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libcomet-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "comet (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENT_DEV_DESCRIPTION
    "Headers, the static codec library, and the files of CMake and pkg-config
for programs that use the libraries of Comet.")

# Each package of Debian has a file of copyright. Only a component that is asked for gets it, so that other installations do not.
foreach(component runtime dev)
    string(TOUPPER ${component} upper)
    install(FILES "${PROJECT_SOURCE_DIR}/cmake/debian_copyright" RENAME copyright COMPONENT ${component} EXCLUDE_FROM_ALL
            DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME}")
endforeach()

include(CPack)
