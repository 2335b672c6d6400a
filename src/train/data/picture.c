/* Which decoder, and checks that both share; see picture.h. */
#include "train/data/picture.h"

#include <string.h>

#include "base/status.h"

comet_status picture_decode(picture *p, const picture_request *request)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a};
    if (request->bytes == 0)
        return comet_fail(COMET_ERROR_CORRUPT, "%.*s: the file is empty", NAME_BYTES, request->name);
    if (request->bytes >= sizeof jpeg && memcmp(request->file, jpeg, sizeof jpeg) == 0)
        return picture_decode_jpeg(p, request);
    if (request->bytes >= sizeof png && memcmp(request->file, png, sizeof png) == 0)
        return picture_decode_png(p, request);
    return comet_fail(COMET_ERROR_CORRUPT, "%.*s: neither JPEG nor PNG by its first bytes", NAME_BYTES, request->name);
}

comet_status picture_check_size(const picture_request *request, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0 || (uint64_t)width * height > MAX_PIXELS)
        return comet_fail(COMET_ERROR_CORRUPT, "%.*s: its header tells of %u x %u pixels; 1 to %d are possible", NAME_BYTES,
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
