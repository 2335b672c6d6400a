/* Sizes in sentences; see size_text.h. */
#include "base/size_text.h"

#include <stdio.h>

char *comet_size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
    const double mib = (double)bytes / (1 << 20);
    if (mib >= 1000)
        snprintf(text, SIZE_TEXT_BYTES, "%.2f GiB", mib / 1024);
    else
        snprintf(text, SIZE_TEXT_BYTES, mib >= 10 ? "%.0f MiB" : "%.2f MiB", mib);
    return text;
}
