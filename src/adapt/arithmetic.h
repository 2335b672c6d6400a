/*
 * Arithmetic of the adaptive bound: only + - * / and sqrt, which IEEE 754 fixes to the bit; no logarithms or powers of the math
 * library. A mean on a logarithmic scale at weight 1/2 is sqrt(old * new), at weight 3/4 sqrt(sqrt(old * new) * new).
 */
#ifndef COMET_ADAPT_ARITHMETIC_H
#define COMET_ADAPT_ARITHMETIC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Is x finite, and not below 0? */
static inline bool usable(double x)
{
    return isfinite(x) && x >= 0;
}

static inline double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* x to the n, by squaring: pow of the math library does not promise the same bits everywhere. */
static inline double power(double x, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
}

#endif
