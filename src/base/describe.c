/* Structs of figures for callers; see describe.h. */
#include "base/describe.h"

#include <string.h>

#include "base/status.h"

comet_status comet_check_size(const void *to, size_t bytes, const char *type)
{
    size_t size = 0;
    if (!to)
        return comet_fail(COMET_ERROR_ARGUMENT, "a null pointer where a %s is to be filled", type);
    memcpy(&size, to, sizeof size);
    if (size <= sizeof size || size > bytes)
        return comet_fail(COMET_ERROR_ARGUMENT, "a %s of size %zu, not up to %zu: call %s_init", type, size, bytes, type);
    return COMET_OK;
}

comet_status comet_give(void *to, const void *from, size_t bytes, const char *type)
{
    size_t size = 0;
    TRY(comet_check_size(to, bytes, type));
    memcpy(&size, to, sizeof size);
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, size - sizeof size);
    return COMET_OK;
}
