# The codec's kernels: one file per instruction set, each with flags of its own, picked at run time.
#
# The name says the set: src/codec/kernels/*avx512*.c, *avx2*.c, *neon*.c; any other file there is plain C. A set that the
# target or the compiler lacks is left out.

include(CheckCCompilerFlag)

set(COMET_FLAGS_AVX2 -mavx2 -mbmi -mbmi2 -mf16c -mfma -mpopcnt -mlzcnt)
set(COMET_FLAGS_AVX512 ${COMET_FLAGS_AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi -mavx512vbmi2 -mgfni
                       -mprefer-vector-width=512)
set(COMET_FLAGS_NEON "")

set(COMET_HAS_AVX2 OFF)
set(COMET_HAS_AVX512 OFF)
set(COMET_HAS_NEON OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    check_c_compiler_flag("${COMET_FLAGS_AVX2}" COMET_COMPILER_HAS_AVX2)
    check_c_compiler_flag("${COMET_FLAGS_AVX512}" COMET_COMPILER_HAS_AVX512)
    set(COMET_HAS_AVX2 ${COMET_COMPILER_HAS_AVX2})
    set(COMET_HAS_AVX512 ${COMET_COMPILER_HAS_AVX512})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(COMET_HAS_NEON ON)
endif()

# Sets *sources to the kernel files to compile and *definitions to COMET_HAVE_<SET> for each set among them.
function(comet_find_kernels sources definitions)
    file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/codec/kernels/*.c")
    set(kept "")
    set(have "")
    foreach(file IN LISTS found)
        get_filename_component(name "${file}" NAME)
        if(NOT name MATCHES "avx512|avx2|neon")
            list(APPEND kept "${file}")
            continue()
        endif()
        string(TOUPPER "${CMAKE_MATCH_0}" set_name)
        if(COMET_HAS_${set_name})
            list(APPEND kept "${file}")
            list(APPEND have COMET_HAVE_${set_name}=1)
            set_source_files_properties("${file}" PROPERTIES COMPILE_OPTIONS "${COMET_FLAGS_${set_name}}")
        endif()
    endforeach()
    list(REMOVE_DUPLICATES have)
    set(${sources} "${kept}" PARENT_SCOPE)
    set(${definitions} "${have}" PARENT_SCOPE)
endfunction()
