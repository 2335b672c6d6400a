# The interpreter of PTX, and the mock of the CUDA driver that is made of it: a library of its own, which comet::gpu loads in tests.

file(GLOB ptx_sources CONFIGURE_DEPENDS gpu/ptx/*.c)
function(comet_ptx_defaults target)
    comet_target_defaults(${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
    # Registers are rows of bytes of any type. Rounding as it is written; no traps, so that loops over lanes become vectors.
    target_compile_options(${target} PRIVATE -fno-strict-aliasing -ffp-contract=off -fno-trapping-math -Wno-conversion
                                             -Wno-float-equal $<$<CONFIG:Release>:-O3>)
endfunction()

add_library(ptx_machine STATIC ${ptx_sources})
comet_ptx_defaults(ptx_machine)
target_link_libraries(ptx_machine PRIVATE m)

add_library(comet_mock_cuda SHARED gpu/mock/driver.c gpu/mock/memory.c)
comet_ptx_defaults(comet_mock_cuda)
set_target_properties(comet_mock_cuda PROPERTIES C_VISIBILITY_PRESET hidden)
target_link_libraries(comet_mock_cuda PRIVATE ptx_machine Threads::Threads m)
target_link_options(comet_mock_cuda PRIVATE LINKER:--exclude-libs,ALL)

# What kernels execute, for the model of speed; tools/count_gpu runs it.
add_executable(count_kernels gpu/count/count_kernels.c gpu/mock_library.c)
comet_unit_test_defaults(count_kernels gpu)
target_link_libraries(count_kernels PRIVATE testing)
add_dependencies(count_kernels comet_mock_cuda)
