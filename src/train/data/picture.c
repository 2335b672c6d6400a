/* Which decoder; see picture.h. */
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
