/* Shuffles by a mask of eight bits; see byte_shuffles.h. Each entry is computed by the compiler from its number m. */
#include "codec/kernels/byte_shuffles.h"

#define BIT(m, i) ((uint64_t)((m) >> (i)&1))
#define BELOW(m, i)                                                                                                          \
    (((i) > 0) * BIT(m, 0) + ((i) > 1) * BIT(m, 1) + ((i) > 2) * BIT(m, 2) + ((i) > 3) * BIT(m, 3) + ((i) > 4) * BIT(m, 4) + \
     ((i) > 5) * BIT(m, 5) + ((i) > 6) * BIT(m, 6))

/* Puts number i in front of the table's bytes if bit i is set. */
#define DOWN(m, i, rest) ((rest) << 8 * BIT(m, i) | BIT(m, i) * (i))
#define SHUFFLE_DOWN(m) \
    DOWN(m, 0, DOWN(m, 1, DOWN(m, 2, DOWN(m, 3, DOWN(m, 4, DOWN(m, 5, DOWN(m, 6, DOWN(m, 7, UINT64_C(0x8080808080808080)))))))))
#define UP(m, i, rest) ((rest) >> 8 * BIT(m, i) | BIT(m, i) * (i) << 56)
#define SHUFFLE_UP(m) UP(m, 7, UP(m, 6, UP(m, 5, UP(m, 4, UP(m, 3, UP(m, 2, UP(m, 1, UP(m, 0, UINT64_C(0)))))))))
#define PLACE(m, i) ((BIT(m, i) * BELOW(m, i) + (1 - BIT(m, i)) * 0x80) << 8 * (i))
#define SHUFFLE_APART(m) \
    (PLACE(m, 0) | PLACE(m, 1) | PLACE(m, 2) | PLACE(m, 3) | PLACE(m, 4) | PLACE(m, 5) | PLACE(m, 6) | PLACE(m, 7))

#define FOUR(entry, m) entry(m), entry((m) + 1), entry((m) + 2), entry((m) + 3)
#define SIXTEEN(entry, m) FOUR(entry, m), FOUR(entry, (m) + 4), FOUR(entry, (m) + 8), FOUR(entry, (m) + 12)
#define SIXTY_FOUR(entry, m) SIXTEEN(entry, m), SIXTEEN(entry, (m) + 16), SIXTEEN(entry, (m) + 32), SIXTEEN(entry, (m) + 48)
#define ALL(entry) SIXTY_FOUR(entry, 0), SIXTY_FOUR(entry, 64), SIXTY_FOUR(entry, 128), SIXTY_FOUR(entry, 192)

const _Alignas(64) uint64_t shuffle_down[256] = {ALL(SHUFFLE_DOWN)};
const _Alignas(64) uint64_t shuffle_up[256] = {ALL(SHUFFLE_UP)};
const _Alignas(64) uint64_t shuffle_apart[256] = {ALL(SHUFFLE_APART)};
