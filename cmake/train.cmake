# comet::train, shared, and comet::train_static, from the same objects: the training engine on oneDNN. The
# shared one holds the codec too, so that a program links one library; only it is installed. Needs oneDNN 2 (which brings GNU's
# OpenMP runtime), libjpeg, libpng, zlib and cJSON.

# Not find_package(dnnl): Debian's file asks for OpenCL's and OpenMP's development files.
find_path(DNNL_INCLUDE_DIR dnnl.h)
find_library(DNNL_LIBRARY dnnl)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
find_package(JPEG)
find_package(PNG)
find_package(ZLIB)
find_package(PkgConfig)
if(PkgConfig_FOUND)
    pkg_check_modules(CJSON IMPORTED_TARGET libcjson)
endif()
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY OR NOT JPEG_FOUND OR NOT PNG_FOUND OR NOT ZLIB_FOUND OR NOT CJSON_FOUND)
    message(FATAL_ERROR "comet::train needs oneDNN 2.6 (${DNNL_LIBRARY}), libjpeg (${JPEG_FOUND}), libpng (${PNG_FOUND}), "
                        "zlib (${ZLIB_FOUND}) and cJSON (${CJSON_FOUND}). Run tools/setup, or set COMET_BUILD_TRAIN=OFF.")
endif()

file(GLOB_RECURSE train_sources CONFIGURE_DEPENDS src/train/*.c)
add_library(comet_train_objects OBJECT ${train_sources})
comet_target_defaults(comet_train_objects)
# Functions that take vectors are all inlined: how they would be called does not matter.
set_source_files_properties(src/train/norm.c PROPERTIES COMPILE_OPTIONS -Wno-psabi)
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
