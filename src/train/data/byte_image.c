/* Planes of bytes; see byte_image.h. Black is the byte 0, as if the image had been padded before it was normalised. */
#include "train/data/byte_image.h"

#include <string.h>

byte_table byte_table_make(double mean, double std)
{
    byte_table table;
    for (int v = 0; v < 256; v++)
        table.of[v] = (float)((v / 255.0 - mean) / std);
    return table;
}

static void place_row(const uint8_t *from, int width, placement place, uint8_t *to)
{
    for (int x = 0; x < width; x++) {
        const int source = x - place.dx;
        to[place.flip ? width - 1 - x : x] = source >= 0 && source < width ? from[source] : 0;
    }
}

void byte_plane_place(const uint8_t *from, uint32_t height, uint32_t width, placement place, uint8_t *to)
{
    for (int y = 0; y < (int)height; y++, to += width) {
        const int source = y - place.dy;
        if (source >= 0 && source < (int)height)
            place_row(from + (size_t)source * width, (int)width, place, to);
        else
            memset(to, 0, width);
    }
}

void byte_plane_normalise(const uint8_t *restrict from, size_t n, const byte_table *restrict table, float *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = table->of[from[i]];
}
