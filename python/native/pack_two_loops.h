/* Loops over arrays with at most two bit patterns, included once for each width with WIDTH (8, 16, 32 or 64) defined. Groups of
 * 64 elements, plain enough for a compiler to vectorise. */
#define ELEMENT PASTE(PASTE(uint, WIDTH), _t)
#define NAMED(name) PASTE(name, WIDTH)

/* The first place in [from, n) with another element than `value`; n if there is none. */
static uint64_t NAMED(find_other_)(const void *array, uint64_t n, uint64_t value)
{
    const ELEMENT *x = array;
    const ELEMENT same = (ELEMENT)value;
    uint64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        ELEMENT differs = 0;
        for (unsigned k = 0; k < GROUP; k++)
            differs |= (ELEMENT)(x[i + k] ^ same);
        if (differs)
            break;
    }
    while (i < n && x[i] == same)
        i++;
    return i;
}

/* Writes a flag for each of GROUP elements, 1 where it is not values[0]. False where one is neither of the two. */
static bool NAMED(flags_)(const ELEMENT *x, const uint64_t *values, uint8_t *flags)
{
    const ELEMENT first = (ELEMENT)values[0], second = (ELEMENT)values[1];
    ELEMENT wrong = 0;
    for (unsigned k = 0; k < GROUP; k++)
        wrong |= (ELEMENT)((x[k] ^ first) & (ELEMENT)(x[k] == second ? 0 : ~(ELEMENT)0));
    for (unsigned k = 0; k < GROUP; k++)
        flags[k] = x[k] != first;
    return wrong == 0;
}

/* Packs elements [first, first + n), first a multiple of GROUP; false where a third pattern is met. */
static bool NAMED(pack_)(const void *array, uint64_t first, uint64_t n, const uint64_t *values, uint64_t *words)
{
    const ELEMENT *x = (const ELEMENT *)array + first;
    uint8_t flags[GROUP];
    words += first / GROUP;
    for (; n >= GROUP; n -= GROUP, x += GROUP) {
        if (!NAMED(flags_)(x, values, flags))
            return false;
        *words++ = word_of_flags(flags);
    }
    if (n == 0)
        return true;
    ELEMENT tail[GROUP];
    for (unsigned k = 0; k < GROUP; k++)
        tail[k] = k < n ? x[k] : (ELEMENT)values[0];
    if (!NAMED(flags_)(tail, values, flags))
        return false;
    *words = word_of_flags(flags);
    return true;
}

static void NAMED(unpack_)(void *array, uint64_t first, uint64_t n, const uint64_t *values, const uint64_t *words)
{
    ELEMENT *x = (ELEMENT *)array + first;
    const ELEMENT zero = (ELEMENT)values[0], difference = (ELEMENT)(values[0] ^ values[1]);
    uint8_t flags[GROUP];
    words += first / GROUP;
    for (; n >= GROUP; n -= GROUP, x += GROUP) {
        flags_of_word(*words++, flags);
        for (unsigned k = 0; k < GROUP; k++)
            x[k] = (ELEMENT)(zero ^ (difference & (ELEMENT)(0 - (ELEMENT)flags[k])));
    }
    if (n > 0)
        flags_of_word(*words, flags);
    for (unsigned k = 0; k < n; k++)
        x[k] = flags[k] ? (ELEMENT)(zero ^ difference) : zero;
}

#undef ELEMENT
#undef NAMED
#undef WIDTH
