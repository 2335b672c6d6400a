#include "codec/blocks.h"

#include "codec/kernels/block.h"

static size_t maps_room(size_t n_blocks)
{
    return n_blocks * MAP_BYTES + WRITE_SLACK;
}

size_t blocks_aside_bytes(size_t n_blocks)
{
    return maps_room(n_blocks) + n_blocks + WRITE_SLACK;
}

block_writer blocks_write_begin(uint8_t *out, uint8_t *aside, size_t n_blocks)
{
    return (block_writer){
        .kinds = out, .values = out + (n_blocks + 1) / 2, .maps = aside, .wides = aside + maps_room(n_blocks)};
}

uint8_t *blocks_write_end(const block_writer *w, const uint8_t *aside, size_t n_blocks)
{
    const uint8_t *wides = aside + maps_room(n_blocks);
    size_t map_bytes = (size_t)(w->maps - aside), n_wide = (size_t)(w->wides - wides);
    uint8_t *out = w->values;
    memcpy(out, aside, map_bytes);
    out += map_bytes;
    for (size_t i = 0; i < n_wide; i++)
        out[i] = wides[n_wide - 1 - i];
    return out + n_wide;
}

/* How many kinds are 15, how many from 1 to 6: each bit of a kind is a bit of its four in a word, whose lowest counts. */
static void count_kinds(const uint8_t *kinds, size_t n_blocks, size_t *n_wide, size_t *n_narrow_maps)
{
    enum { A_WORD = 16, MOST_WORDS = 15 }; /* words whose counts fit four bits */
    const uint64_t each = UINT64_C(0x1111111111111111), even = UINT64_C(0x0f0f0f0f0f0f0f0f),
                   ones = UINT64_C(0x0101010101010101);
    *n_wide = *n_narrow_maps = 0;
    for (size_t i = 0; i < n_blocks;) {
        uint64_t wides = 0, maps = 0;
        for (int k = 0; k < MOST_WORDS && i < n_blocks; k++, i += A_WORD) {
            uint64_t v = load_u64(kinds + i / 2);
            if (n_blocks - i < A_WORD)
                v &= (UINT64_C(1) << 4 * (n_blocks - i)) - 1;
            const uint64_t low_and = v & v >> 1 & v >> 2, low_or = v | v >> 1 | v >> 2, high = v >> 3;
            wides += low_and & high & each;
            maps += low_or & ~low_and & ~high & each;
        }
        *n_wide += ((wides & even) + (wides >> 4 & even)) * ones >> 56;
        *n_narrow_maps += ((maps & even) + (maps >> 4 & even)) * ones >> 56;
    }
}

bool blocks_read_begin(const uint8_t *start, const uint8_t *end, size_t n_blocks, block_reader *in)
{
    size_t kind_bytes = (n_blocks + 1) / 2, room = (size_t)(end - start), n_wide, n_maps;
    if (room < kind_bytes || (n_blocks % 2 && start[kind_bytes - 1] >> 4))
        return false;
    count_kinds(start, n_blocks, &n_wide, &n_maps);
    room -= kind_bytes;
    if (n_wide > room)
        return false;
    for (const uint8_t *wide = end - n_wide; wide < end; wide++)
        n_maps += *wide / WIDE_BITMAP;
    room -= n_wide;
    if (n_maps > room / MAP_BYTES)
        return false;
    const uint8_t *maps = end - n_wide - n_maps * MAP_BYTES;
    *in = (block_reader){.kinds = start, .values = start + kind_bytes, .values_end = maps, .maps = maps, .wides = end};
    return true;
}
