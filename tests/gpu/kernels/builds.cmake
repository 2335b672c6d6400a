# The builds of the GPU's kernels in plain C: unit.c once for each row and width of codes.

add_library(fiber_kernels STATIC)
function(comet_fiber_kernels name)
    foreach(bits 16 32)
        set(target fiber_kernels_${name}_${bits})
        add_library(${target} OBJECT gpu/kernels/unit.c)
        comet_target_defaults(${target})
        target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src"
                                                     "${PROJECT_SOURCE_DIR}/include")
        # The kernels are written for compilers with other warnings.
        target_compile_options(${target} PRIVATE -Wno-conversion -Wno-unused-parameter)
        target_compile_definitions(${target} PRIVATE CODE_BITS=${bits} KERNELS=${name}_${bits})
        target_compile_options(${target} PRIVATE ${ARGN})
        target_sources(fiber_kernels PRIVATE $<TARGET_OBJECTS:${target}>)
    endforeach()
endfunction()

comet_fiber_kernels(plain)
comet_fiber_kernels(warp32 -DWARP=32)
comet_fiber_kernels(warp64 -DWARP=64)
comet_fiber_kernels(lots -DLOT=32)
# Calls watch.c at each access; the sanitizer's own runtime is not linked.
comet_fiber_kernels(watched -fsanitize=thread -fno-sanitize=address,undefined)
