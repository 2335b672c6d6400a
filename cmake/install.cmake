# What `cmake --install` puts in place: libraries, headers, find_package(comet), pkg-config's comet-codec and comet-train. There are two
# components, which become packages (package.cmake): runtime, what programs need to run, and dev, what is needed to build them.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/comet")
set(shared_libraries LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS comet_codec comet_codec_static EXPORT comet_targets ${shared_libraries}
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT dev)
set(headers_of_train)
foreach(name net data model weights predict budget train)
    list(APPEND headers_of_train PATTERN "${name}.h" EXCLUDE)
endforeach()
set(headers_of_gpu PATTERN "gpu.h" EXCLUDE)
if(TARGET comet_gpu)
    set(headers_of_gpu)
    install(TARGETS comet_gpu EXPORT comet_targets ${shared_libraries})
endif()
if(TARGET comet_train)
    set(headers_of_train)
    install(TARGETS comet_train EXPORT comet_targets ${shared_libraries})
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/comet" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev
        FILES_MATCHING PATTERN "*.h" ${headers_of_train} ${headers_of_gpu})
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)

install(EXPORT comet_targets NAMESPACE comet:: FILE comet-targets.cmake DESTINATION "${package_dir}" COMPONENT dev)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/comet-config.cmake.in" "${PROJECT_BINARY_DIR}/comet-config.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/comet-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/comet-config.cmake" "${PROJECT_BINARY_DIR}/comet-config-version.cmake"
        DESTINATION "${package_dir}" COMPONENT dev)

# Paths relative to the .pc file, so that `cmake --install --prefix` may choose another prefix than the configured one.
set(pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
    set(pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
    set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
    file(RELATIVE_PATH up "/${pc_dir}" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
foreach(package codec train)
    if(TARGET comet_${package})
        configure_file("${PROJECT_SOURCE_DIR}/cmake/comet-${package}.pc.in" "${PROJECT_BINARY_DIR}/comet-${package}.pc" @ONLY)
        install(FILES "${PROJECT_BINARY_DIR}/comet-${package}.pc" DESTINATION "${pc_dir}" COMPONENT dev)
    endif()
endforeach()
