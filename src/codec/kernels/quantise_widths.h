/* quantise_body.h for both code widths of one element type. Included with ELEMENT, REAL, LOAD, STORE, FIELD, MATH and
 * TYPE_NAME(stem, width) defined. */

#define CODE int16_t
#define LIMIT CODE16_LIMIT
#define NAME(stem) TYPE_NAME(stem, 16)
#include "codec/kernels/quantise_body.h"

#define CODE int32_t
#define LIMIT CODE32_LIMIT
#define NAME(stem) TYPE_NAME(stem, 32)
#include "codec/kernels/quantise_body.h"

#undef ELEMENT
#undef REAL
#undef LOAD
#undef STORE
#undef FIELD
#undef MATH
#undef TYPE_NAME
