/* See optimiser_state.h. */
#include "train/math/optimiser_state.h"

#include "train/math/optimiser_state_loops.h"

const char *comet_state_format_name(comet_state_format format)
{
    static const char *const names[] = {"f32", "bf16", "coded"};
    return (unsigned)format < sizeof names / sizeof names[0] ? names[format] : "unknown";
}

static uint64_t bytes_per_block(comet_state_format format)
{
    return format == COMET_STATE_CODED  ? STATE_BLOCK_BYTES
           : format == COMET_STATE_BF16 ? STATE_BLOCK * sizeof(uint16_t)
                                        : STATE_BLOCK * sizeof(float);
}

uint64_t state_bytes(comet_state_format format, uint64_t n)
{
    return format == COMET_STATE_F32 ? n * sizeof(float) : (n + STATE_BLOCK - 1) / STATE_BLOCK * bytes_per_block(format);
}

state_block state_at(state_block s, uint64_t first)
{
    if (s.data)
        s.data = (char *)s.data + first / STATE_BLOCK * bytes_per_block(s.format);
    return s;
}

/* ---- whole arrays, by tiles ---- */

typedef struct copy_job {
    state_block state;
    size_t n;
    float *out;
    const float *in;
} copy_job;

ISA_INLINED void read_tiles(const copy_job *j)
{
    for (size_t at = 0; at < j->n; at += STATE_TILE) {
        const size_t left = j->n - at, n = left < STATE_TILE ? left : STATE_TILE;
        state_decode(state_at(j->state, at), n, j->out + at);
    }
}

ISA_INLINED void write_tiles(const copy_job *j)
{
    uint32_t draws[STATE_TILE];
    for (size_t i = 0; i < STATE_TILE; i++)
        draws[i] = DRAW_NEAREST;
    for (size_t at = 0; at < j->n; at += STATE_TILE) {
        const size_t left = j->n - at, n = left < STATE_TILE ? left : STATE_TILE;
        state_encode(state_at(j->state, at), n, j->in + at, draws, 0);
    }
}

ISA_VARIANTS(read_all, (const copy_job *j), read_tiles(j))
ISA_VARIANTS(write_all, (const copy_job *j), write_tiles(j))

void state_read(state_block s, size_t n, float *x)
{
    const copy_job j = {.state = s, .n = n, .out = x};
    if (s.format == COMET_STATE_F32)
        memcpy(x, s.data, n * sizeof *x);
    else
        ISA_PICK(read_all)(&j);
}

void state_write(state_block s, size_t n, const float *x)
{
    const copy_job j = {.state = s, .n = n, .in = x};
    if (s.format == COMET_STATE_F32)
        memcpy(s.data, x, n * sizeof *x);
    else
        ISA_PICK(write_all)(&j);
}
