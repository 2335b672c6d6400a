# Language, numerics and warnings that every target of this project is compiled with.
#
# Numerics: results must be the same for any compiler and instruction set, so no fast-math and no contraction to fused
# multiply-add. Errno and floating-point traps are never read, so giving them up changes no result.

set(COMET_WARNINGS
    -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wundef -Wvla -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wcast-qual -Wwrite-strings)
# Constants are anonymous enums, which clang 19 does not like to see beside floats.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    list(APPEND COMET_WARNINGS -Wno-enum-float-conversion)
endif()

if(COMET_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
elseif(COMET_SANITIZE)
    add_compile_options(-fsanitize=${COMET_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${COMET_SANITIZE})
endif()

function(comet_target_defaults target)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
                                               C_VISIBILITY_PRESET hidden)
    target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L)
    target_compile_options(${target} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math ${COMET_WARNINGS})
    if(COMET_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
endfunction()
