# Sets COMET_OWN_OPENMP: may cli/openmp.c stand for libgomp? It has the functions below. A oneDNN that calls another one that knows
# of teams would see two of them; then, and where nm cannot tell, the program keeps libgomp.

set(openmp_own GOMP_parallel GOMP_parallel_start GOMP_parallel_end GOMP_barrier GOMP_loop_static_start GOMP_loop_static_next
               GOMP_loop_end GOMP_loop_end_nowait omp_set_num_threads omp_get_max_threads omp_get_num_threads omp_get_thread_num
               omp_in_parallel)

function(comet_find_own_openmp result)
    set(${result} FALSE PARENT_SCOPE)
    if(NOT CMAKE_NM)
        return()
    endif()
    execute_process(COMMAND "${CMAKE_NM}" -D --undefined-only "${DNNL_LIBRARY}" OUTPUT_VARIABLE symbols ERROR_QUIET)
    string(REGEX REPLACE "@[^\n]*" "" symbols "${symbols}") # their versions
    string(REGEX MATCHALL "(GOMP|omp|__kmpc)_[A-Za-z0-9_]+" used "${symbols}")
    list(REMOVE_DUPLICATES used)
    list(FIND used GOMP_parallel plain)
    list(FIND used GOMP_parallel_start split)
    if(plain LESS 0 AND split LESS 0)
        return()
    endif()
    list(REMOVE_ITEM used ${openmp_own})
    if(used)
        list(JOIN used ", " names)
        message(STATUS "comet: the program keeps libgomp, since oneDNN also calls ${names}")
        return()
    endif()
    set(${result} TRUE PARENT_SCOPE)
endfunction()

comet_find_own_openmp(COMET_OWN_OPENMP)
