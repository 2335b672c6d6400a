/*
 * The codec's arithmetic is that of IEEE 754 with its defaults: round to nearest, subnormals kept. A host may have set its
 * thread otherwise (flush to zero is common in machine learning), so calls that compute do so in a default environment and put
 * the host's back.
 */
#ifndef COMET_BASE_FLOAT_ENV_H
#define COMET_BASE_FLOAT_ENV_H

#include <fenv.h>

static inline void float_env_enter(fenv_t *host)
{
    fegetenv(host);
    fesetenv(FE_DFL_ENV);
}

static inline void float_env_leave(const fenv_t *host)
{
    fesetenv(host);
}

#endif
