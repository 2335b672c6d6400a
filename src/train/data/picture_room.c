/* What both decoders share: the limit on pixels, and room for them; see picture.h. */
#include "base/status.h"
#include "train/data/picture.h"

comet_status picture_check_size(const picture_request *request, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0 || (uint64_t)width * height > MAX_PIXELS)
        return comet_fail(COMET_ERROR_CORRUPT, "%.*s: its header declares %u x %u pixels; 1 to %d are possible", NAME_BYTES,
                          request->name, width, height, MAX_PIXELS);
    return COMET_OK;
}

comet_status picture_reserve(picture *p, const picture_request *request, size_t pixel_bytes, uint8_t **room)
{
    const comet_allocator allocator = comet_allocator_of(NULL);
    const size_t stride = p->width * pixel_bytes;
    const comet_status status = comet_buffer_reserve(&allocator, request->pixels, stride * p->height);
    if (status != COMET_OK)
        return status;
    p->pixels = *room = request->pixels->data;
    p->stride = stride;
    return COMET_OK;
}
