# The program comet: the folders of cli/ on the public headers and base/, cJSON, and zfp and zstd to compare with where they are found.

find_package(PkgConfig)
if(PkgConfig_FOUND)
    pkg_check_modules(CJSON IMPORTED_TARGET libcjson)
    pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
endif()
if(NOT CJSON_FOUND)
    message(FATAL_ERROR "The program comet needs cJSON, found through pkg-config. Run tools/setup, or set COMET_BUILD_CLI=OFF.")
endif()
# Not find_package(zfp): Debian's file asks for OpenMP, which clang may lack.
find_path(ZFP_INCLUDE_DIR zfp.h)
find_library(ZFP_LIBRARY zfp)
mark_as_advanced(ZFP_INCLUDE_DIR ZFP_LIBRARY)

# One glob a folder. cli/train is all that needs comet::train, and is left out as a whole without it.
file(GLOB cli_sources CONFIGURE_DEPENDS cli/*.c cli/kit/*.c cli/tensor/*.c cli/bench/*.c cli/doctor/*.c cli/report/*.c)
if(TARGET comet_train_static)
    file(GLOB cli_train_sources CONFIGURE_DEPENDS cli/train/*.c)
    list(APPEND cli_sources ${cli_train_sources})
endif()
if(TARGET comet_train_static)
    include(cmake/openmp.cmake)
endif()
if(NOT COMET_OWN_OPENMP)
    list(FILTER cli_sources EXCLUDE REGEX "cli/openmp\\.c$")
endif()
add_executable(comet ${cli_sources})
comet_target_defaults(comet)
set_target_properties(comet PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(comet PRIVATE cli src)
# The style sheet and the script of the page of `comet report`, as arrays of bytes.
set(report_assets "${PROJECT_SOURCE_DIR}/cli/report/report.css" "${PROJECT_SOURCE_DIR}/cli/report/report.js")
add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/cli/report_assets.h"
                   COMMAND "${CMAKE_COMMAND}" "-DOUT=${PROJECT_BINARY_DIR}/cli/report_assets.h" "-DFILES=${report_assets}" -P
                           "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
                   DEPENDS ${report_assets} "${PROJECT_SOURCE_DIR}/cmake/embed.cmake" VERBATIM)
add_custom_target(report_assets DEPENDS "${PROJECT_BINARY_DIR}/cli/report_assets.h")
add_dependencies(comet report_assets)
target_sources(comet PRIVATE "${PROJECT_BINARY_DIR}/cli/report_assets.h")
target_include_directories(comet PRIVATE "${PROJECT_BINARY_DIR}/cli")
target_link_libraries(comet PRIVATE $<TARGET_NAME_IF_EXISTS:comet_train_static> comet::codec_static PkgConfig::CJSON Threads::Threads m)
if(TARGET comet_gpu_static)
    target_compile_definitions(comet PRIVATE COMET_HAVE_GPU=1)
    target_link_libraries(comet PRIVATE comet::gpu_static)
endif()
if(TARGET comet_train_static)
    target_compile_definitions(comet PRIVATE COMET_HAVE_TRAIN=1)
else()
    set_source_files_properties(cli/training.c PROPERTIES COMPILE_DEFINITIONS "COMET_TRAIN_MISSING=\"${COMET_TRAIN_MISSING}\"")
endif()
if(ZSTD_FOUND)
    target_compile_definitions(comet PRIVATE COMET_HAVE_ZSTD=1)
    target_link_libraries(comet PRIVATE PkgConfig::ZSTD)
endif()
if(ZFP_INCLUDE_DIR AND ZFP_LIBRARY)
    target_compile_definitions(comet PRIVATE COMET_HAVE_ZFP=1)
    target_include_directories(comet SYSTEM PRIVATE "${ZFP_INCLUDE_DIR}")
    target_link_libraries(comet PRIVATE "${ZFP_LIBRARY}")
endif()
# Where the documents are, seen from the program, wherever both are installed.
file(RELATIVE_PATH docs_from_bin "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_DOCDIR}")
set_source_files_properties(cli/kit/topics.c PROPERTIES COMPILE_DEFINITIONS "COMET_DOCS_FROM_BIN=\"${docs_from_bin}\"")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")

# Manual pages and completion are what the program says of its own tables, so it must run here.
if(NOT CMAKE_CROSSCOMPILING)
    set(manual_dir "${PROJECT_BINARY_DIR}/manual")
    add_custom_command(OUTPUT "${manual_dir}/stamp"
                       COMMAND "${PROJECT_SOURCE_DIR}/cmake/write_manual" $<TARGET_FILE:comet> "${manual_dir}"
                       DEPENDS comet "${PROJECT_SOURCE_DIR}/cmake/write_manual" VERBATIM
                       COMMENT "Writing manual pages and completion")
    add_custom_target(comet_manual ALL DEPENDS "${manual_dir}/stamp")
    install(DIRECTORY "${manual_dir}/man1/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT runtime)
    install(FILES "${manual_dir}/comet.bash" RENAME comet DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
            COMPONENT runtime)
    install(FILES "${manual_dir}/comet.zsh" RENAME _comet DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT runtime)
    install(FILES "${manual_dir}/comet.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT runtime)
endif()
install(TARGETS comet RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
