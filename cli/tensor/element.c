/* Single elements; see element.h. */
#include "tensor/element.h"

#include <string.h>

void element_place(const comet_tensor *tensor, uint64_t index, uint64_t place[COMET_MAX_DIMS])
{
    uint64_t shape[COMET_NPY_MAX_DIMS], at[COMET_NPY_MAX_DIMS];
    const uint32_t n = tensor->n_dims;
    for (uint32_t i = memory_shape(tensor, shape); i-- > 0; index /= shape[i])
        at[i] = index % shape[i];
    memcpy(place, at, n * sizeof place[0]);
    if (tensor->layout == COMET_LAYOUT_CHANNELS_LAST) {
        place[n - 3] = at[n - 1];
        place[n - 2] = at[n - 3];
        place[n - 1] = at[n - 2];
    } else if (tensor->layout != COMET_LAYOUT_PLANAR) {
        place[n - 3] = at[n - 3] * comet_layout_block(tensor->layout) + at[n];
    }
}
