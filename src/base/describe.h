/*
 * Handing a struct of figures to a caller whose copy of it may be older, and so shorter, than ours.
 *
 * Such structs begin with `size_t size`, set by the caller (or by the struct's init function for it), and grow at their end
 * only.
 */
#ifndef COMET_BASE_DESCRIBE_H
#define COMET_BASE_DESCRIBE_H

#include "comet/base.h"

/* COMET_ERROR_ARGUMENT, with the name of the type, where `to` is NULL or its size is not that of a struct which was
 * initialised: more than the size field alone, at most `bytes`. */
comet_status comet_check_size(const void *to, size_t bytes, const char *type);

/* Copies what follows the size in *from, a struct of `bytes` bytes, to *to: as much as the caller's size says, which stays as
 * it is. Fails as comet_check_size does. */
comet_status comet_give(void *to, const void *from, size_t bytes, const char *type);

/* Both for a type by its name. */
#define CHECK_SIZE(type, to) comet_check_size((to), sizeof(type), #type)
#define GIVE(type, to, from) comet_give((to), (from), sizeof(type), #type)

#endif
