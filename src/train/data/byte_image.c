/* Bytes to normalised floats; see byte_image.h. Black is the byte 0, as if the image had been padded before it was normalised.
 */
#include "train/data/byte_image.h"

byte_table byte_table_make(double mean, double std)
{
    byte_table table;
    for (int v = 0; v < 256; v++)
        table.of[v] = (float)((v / 255.0 - mean) / std);
    return table;
}

static void write_row(const uint8_t *from, int width, const byte_table *table, placement place, float *to)
{
    for (int x = 0; x < width; x++) {
        const int source = x - place.dx;
        to[place.flip ? width - 1 - x : x] = table->of[source >= 0 && source < width ? from[source] : 0];
    }
}

static void write_black(int width, const byte_table *table, float *to)
{
    for (int x = 0; x < width; x++)
        to[x] = table->of[0];
}

void byte_plane_write(const uint8_t *from, uint32_t height, uint32_t width, const byte_table *table, placement place, float *to)
{
    for (int y = 0; y < (int)height; y++, to += width) {
        const int source = y - place.dy;
        if (source >= 0 && source < (int)height)
            write_row(from + (size_t)source * width, (int)width, table, place, to);
        else
            write_black((int)width, table, to);
    }
}
