# comet::gpu, shared, and comet::gpu_static: the codec on OpenCL and CUDA devices. Drivers are loaded at run time, and the kernels are
# in the library as text, so nothing of either is needed here.

# In the order of their use; tools/make_ptx has the same list.
set(COMET_GPU_KERNELS
    language job values blocks decode_kernel parts_kernel choice encode_kernel parts_model_kernel parts_encode_kernel
    frame_kernel)

set(gpu_texts "")
foreach(name IN LISTS COMET_GPU_KERNELS)
    list(APPEND gpu_texts "${PROJECT_SOURCE_DIR}/src/gpu/kernels/${name}.h")
endforeach()
set(gpu_ptx "${PROJECT_SOURCE_DIR}/src/gpu/ptx/kernels_16.ptx" "${PROJECT_SOURCE_DIR}/src/gpu/ptx/kernels_32.ptx")
set(gpu_embedded "${PROJECT_BINARY_DIR}/gpu")

function(comet_embed out)
    add_custom_command(OUTPUT "${out}"
                       COMMAND "${CMAKE_COMMAND}" "-DOUT=${out}" "-DFILES=${ARGN}" -P "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
                       DEPENDS ${ARGN} "${PROJECT_SOURCE_DIR}/cmake/embed.cmake" VERBATIM)
endfunction()
comet_embed("${gpu_embedded}/gpu_sources.h" ${gpu_texts})
comet_embed("${gpu_embedded}/gpu_ptx.h" ${gpu_ptx})
add_custom_target(gpu_assets DEPENDS "${gpu_embedded}/gpu_sources.h" "${gpu_embedded}/gpu_ptx.h")

file(GLOB gpu_c CONFIGURE_DEPENDS src/gpu/*.c)
add_library(comet_gpu_objects OBJECT ${gpu_c} "${gpu_embedded}/gpu_sources.h" "${gpu_embedded}/gpu_ptx.h")
add_dependencies(comet_gpu_objects gpu_assets)
comet_target_defaults(comet_gpu_objects)
set_target_properties(comet_gpu_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(comet_gpu_objects PRIVATE include src "${gpu_embedded}")

add_library(comet_gpu_static STATIC $<TARGET_OBJECTS:comet_gpu_objects>)
add_library(comet::gpu_static ALIAS comet_gpu_static)
set_target_properties(comet_gpu_static PROPERTIES EXPORT_NAME gpu_static OUTPUT_NAME comet_gpu LINKER_LANGUAGE C
                                                  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(comet_gpu_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(comet_gpu_static PUBLIC comet_codec_static PRIVATE ${CMAKE_DL_LIBS} Threads::Threads m)

add_library(comet_gpu SHARED $<TARGET_OBJECTS:comet_gpu_objects> $<TARGET_OBJECTS:comet_codec_objects>)
add_library(comet::gpu ALIAS comet_gpu)
set_target_properties(comet_gpu PROPERTIES EXPORT_NAME gpu LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                                           SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_include_directories(comet_gpu INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(comet_gpu PRIVATE ${CMAKE_DL_LIBS} Threads::Threads m)
if(NOT COMET_SANITIZE AND NOT COMET_FUZZ)
    target_link_options(comet_gpu PRIVATE LINKER:--no-undefined)
endif()
