# comet::train, shared, and comet::train_static, from the same objects: the training engine on oneDNN. The
# shared one holds the codec too, so that a program links one library; only it is installed. Needs oneDNN 2 or 3 (which brings GNU's
# OpenMP runtime), libjpeg, libpng, zlib and cJSON.

set(COMET_DNNL_ROOT "" CACHE PATH "oneDNN in this folder (its include/ and lib/) instead of the system's; see tools/setup dnnl3")
# What was found for another folder does not count.
if(NOT COMET_DNNL_ROOT STREQUAL "${COMET_DNNL_ROOT_SEARCHED}")
    unset(DNNL_INCLUDE_DIR CACHE)
    unset(DNNL_LIBRARY CACHE)
endif()
set(COMET_DNNL_ROOT_SEARCHED "${COMET_DNNL_ROOT}" CACHE INTERNAL "")
set(dnnl_places)
if(COMET_DNNL_ROOT)
    set(dnnl_places PATHS "${COMET_DNNL_ROOT}" PATH_SUFFIXES include lib lib64 NO_DEFAULT_PATH)
endif()
# Not find_package(dnnl): Debian's file asks for OpenCL's and OpenMP's development files.
find_path(DNNL_INCLUDE_DIR dnnl.h ${dnnl_places})
find_library(DNNL_LIBRARY dnnl ${dnnl_places})
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
find_package(JPEG)
find_package(PNG)
find_package(ZLIB)
find_package(PkgConfig)
if(PkgConfig_FOUND)
    pkg_check_modules(CJSON IMPORTED_TARGET libcjson)
endif()

# "2.6.3", from the header, since pkg-config and CMake's package are not everywhere; empty where no header has it.
function(comet_find_dnnl_version result)
    set(numbers)
    foreach(header oneapi/dnnl/dnnl_version.h dnnl_version.h)
        if(NOT numbers AND EXISTS "${DNNL_INCLUDE_DIR}/${header}")
            file(STRINGS "${DNNL_INCLUDE_DIR}/${header}" lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
            string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
        endif()
    endforeach()
    list(JOIN numbers "." version)
    set(${result} "${version}" PARENT_SCOPE)
endfunction()

# Sets the reason why training cannot be built, as words after a colon; empty where it can be built.
function(comet_find_train_missing result)
    set(DNNL_FOUND FALSE)
    if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
        set(DNNL_FOUND TRUE)
    endif()
    set(absent)
    foreach(need DNNL:oneDNN JPEG:libjpeg PNG:libpng ZLIB:zlib CJSON:cJSON)
        string(REPLACE ":" ";" need "${need}")
        list(GET need 0 package)
        list(GET need 1 name)
        if(NOT ${package}_FOUND)
            list(APPEND absent "no ${name}")
        endif()
    endforeach()
    list(JOIN absent " and " reason)
    if(absent)
        string(APPEND reason " was found (tools/setup installs it)")
    endif()
    if(DNNL_FOUND AND NOT COMET_DNNL_VERSION MATCHES "^[23]\\.")
        set(reason "oneDNN ${COMET_DNNL_VERSION} was found, 2.x or 3.x is needed")
    endif()
    set(${result} "${reason}" PARENT_SCOPE)
endfunction()

comet_find_dnnl_version(COMET_DNNL_VERSION)
comet_find_train_missing(COMET_TRAIN_MISSING)
if(COMET_TRAIN_MISSING AND COMET_BUILD_TRAIN STREQUAL "AUTO")
    # NOTICE goes to stderr, which `make` shows.
    message(NOTICE "comet: training is left out: ${COMET_TRAIN_MISSING}; the codec and its command line are built without it.")
    return()
elseif(COMET_TRAIN_MISSING)
    message(FATAL_ERROR "Training cannot be built: ${COMET_TRAIN_MISSING}; with COMET_BUILD_TRAIN=AUTO the codec and its "
                        "command line are built without it.")
endif()

# Of the files for one version of oneDNN only that of the version that was found is compiled.
string(REGEX MATCH "^[0-9]+" dnnl_major "${COMET_DNNL_VERSION}")
file(GLOB_RECURSE train_sources CONFIGURE_DEPENDS src/train/*.c)
list(FILTER train_sources EXCLUDE REGEX "/backend_dnnl[0-9]+\\.c$")
list(APPEND train_sources src/train/backend/backend_dnnl${dnnl_major}.c)
# Loops of Winograd's convolution: one file per instruction set, with the flags of the codec's kernels.
foreach(isa avx2 avx512)
    string(TOUPPER ${isa} set_name)
    if(COMET_HAS_${set_name})
        list(APPEND train_kernels_have COMET_HAVE_${set_name}=1)
        set_source_files_properties(src/train/backend/winograd_${isa}.c PROPERTIES
                                    COMPILE_OPTIONS "${COMET_FLAGS_${set_name}};-Wno-psabi")
    else()
        list(FILTER train_sources EXCLUDE REGEX "/winograd_${isa}\\.c$")
    endif()
endforeach()
add_library(comet_train_objects OBJECT ${train_sources})
comet_target_defaults(comet_train_objects)
target_compile_definitions(comet_train_objects PRIVATE ${train_kernels_have})
# Functions that take vectors are all inlined, so the warning about their calling convention does not matter.
set_source_files_properties(src/train/math/norm.c src/train/backend/winograd_reference.c PROPERTIES COMPILE_OPTIONS -Wno-psabi)
set_target_properties(comet_train_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(comet_train_objects PRIVATE include src)
target_include_directories(comet_train_objects SYSTEM PRIVATE "${DNNL_INCLUDE_DIR}")
target_link_libraries(comet_train_objects PRIVATE "${DNNL_LIBRARY}" JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::CJSON)

add_library(comet_train_static STATIC $<TARGET_OBJECTS:comet_train_objects>)
add_library(comet::train_static ALIAS comet_train_static)
set_target_properties(comet_train_static PROPERTIES EXPORT_NAME train_static OUTPUT_NAME comet_train LINKER_LANGUAGE C
                                                    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(comet_train_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(comet_train_static PUBLIC comet_codec_static
                                         PRIVATE "${DNNL_LIBRARY}" JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::CJSON gomp Threads::Threads m)

add_library(comet_train SHARED $<TARGET_OBJECTS:comet_train_objects> $<TARGET_OBJECTS:comet_codec_objects>)
add_library(comet::train ALIAS comet_train)
set_target_properties(comet_train PROPERTIES EXPORT_NAME train LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(comet_train INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(comet_train PRIVATE "${DNNL_LIBRARY}" JPEG::JPEG PNG::PNG ZLIB::ZLIB PkgConfig::CJSON gomp Threads::Threads m)
if(NOT COMET_SANITIZE AND NOT COMET_FUZZ)
    target_link_options(comet_train PRIVATE LINKER:--no-undefined)
endif()
