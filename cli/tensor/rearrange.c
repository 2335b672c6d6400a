/* Tiling and layouts; see rearrange.h. */
#include "tensor/rearrange.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kit/pages.h"

static void replace(loaded_tensor *loaded, const comet_tensor *tensor, void *memory, size_t bytes)
{
    free(loaded->memory);
    *loaded = (loaded_tensor){.tensor = *tensor, .data = memory, .bytes = bytes, .memory = memory};
}

cli_exit tensor_tile(loaded_tensor *loaded, size_t min_bytes)
{
    if (loaded->bytes == 0 || loaded->bytes >= min_bytes)
        return CLI_OK;
    const size_t n_tiles = min_bytes / loaded->bytes + (min_bytes % loaded->bytes != 0);
    const size_t bytes = n_tiles * loaded->bytes; /* below 2 * min_bytes */
    unsigned char *memory = pages_alloc(bytes);
    if (!memory)
        return fail_memory(bytes);
    for (size_t i = 0; i < n_tiles; i++)
        memcpy(memory + i * loaded->bytes, loaded->data, loaded->bytes);
    comet_tensor tensor = loaded->tensor;
    tensor.dims[0] *= n_tiles;
    replace(loaded, &tensor, memory, bytes);
    return CLI_OK;
}

static void scatter(const unsigned char *from, unsigned char *to, uint64_t n, uint64_t step, size_t element)
{
    switch (element) {
    case 2:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * step * 2, from + i * 2, 2);
        break;
    case 4:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * step * 4, from + i * 4, 4);
        break;
    default:
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * step * 8, from + i * 8, 8);
        break;
    }
}

/* All images of `from` (planar) into `to`, whose layout is tensor's: blocks of channels, inside them positions, inside those
 * channels. Channels last is one block of all channels. */
static void lay_out(const comet_tensor *tensor, const unsigned char *from, unsigned char *to, size_t to_bytes)
{
    const uint32_t n = tensor->n_dims;
    const size_t element = comet_dtype_bytes(tensor->dtype);
    const uint64_t places = tensor->dims[n - 2] * tensor->dims[n - 1];
    const uint64_t channels = tensor->dims[n - 3];
    const uint64_t block = tensor->layout == COMET_LAYOUT_CHANNELS_LAST ? channels : comet_layout_block(tensor->layout);
    if (to_bytes == 0)
        return;
    const uint64_t image_bytes = (channels / block + (channels % block != 0)) * places * block * element;
    for (unsigned char *image = to; image < to + to_bytes; image += image_bytes)
        for (uint64_t c = 0; c < channels; c++, from += places * element)
            scatter(from, image + (c / block * places * block + c % block) * element, places, block, element);
}

cli_exit tensor_rearrange(loaded_tensor *loaded, comet_layout layout)
{
    if (layout == COMET_LAYOUT_PLANAR)
        return CLI_OK;
    comet_tensor tensor = loaded->tensor;
    size_t bytes = 0;
    if (tensor.n_dims < 3)
        return fail(CLI_BAD_INPUT, "layout %s needs a tensor of at least 3 dimensions", layout_name(layout));
    tensor.layout = layout;
    const comet_status status = comet_tensor_bytes(&tensor, &bytes);
    if (status != COMET_OK)
        return fail_status(status, "layout");
    unsigned char *memory = pages_alloc(bytes);
    if (!memory)
        return fail_memory(bytes);
    memset(memory, 0, bytes);
    lay_out(&tensor, loaded->data, memory, bytes);
    replace(loaded, &tensor, memory, bytes);
    return CLI_OK;
}
