/* Sizes of a thread's buffers. */
#include "codec/blocks.h"
#include "codec/chunk.h"
#include "codec/dense.h"
#include "codec/linear.h"
#include "codec/parts.h"

/* Zeros before the first code: a line, a position and a block (vectors begin early), rounded up to whole blocks. */
static size_t padding(const chunk_plan *plan)
{
    return (plan->shape.line + plan->shape.channels + 2 * BLOCK - 1) / BLOCK * BLOCK;
}

void *codes_of(const workspace *ws, const chunk_plan *plan, enum code_width width)
{
    return (uint8_t *)ws->codes.data + padding(plan) * code_bytes(width);
}

size_t codes_carried(const chunk_plan *plan)
{
    return padding(plan) <= QUANT_TILE / 4 ? padding(plan) : 0;
}

static size_t longest_chunk(const chunk_plan *plan)
{
    return (size_t)min_u64(plan->chunk_elements, plan->shape.n_elements);
}

/* The widest codes that chunks of this plan may need. */
static enum code_width widest(const chunk_plan *plan)
{
    return plan->lossless && plan->dtype == COMET_DTYPE_F64 ? CODES64 : CODES32;
}

static comet_status reserve_codes(workspace *ws, const comet_allocator *allocator, const chunk_plan *plan,
                                  enum code_width width)
{
    size_t codes = padding(plan) + (longest_chunk(plan) / BLOCK + 2) * BLOCK;
    return comet_buffer_reserve(allocator, &ws->codes, codes * code_bytes(width));
}

/* What dense coding needs for the longest chunk and for the last one, which may be shorter and then has other lanes: bytes of
 * the cells that are kept, and the number of all cells. */
typedef struct dense_room {
    size_t kept, cells;
} dense_room;

static dense_room dense_room_of(const chunk_plan *plan, bool waves)
{
    size_t rest = (size_t)(plan->shape.n_elements % plan->chunk_elements);
    size_t lengths[2] = {longest_chunk(plan), rest ? rest : longest_chunk(plan)};
    dense_room room = {0, 0};
    for (int i = 0; i < 2; i++) {
        lanes l = geometry_lanes(&plan->shape, plan->chunk_elements, lengths[i]);
        wave_shape w = {0};
        bool suits = waves && geometry_wave(&plan->shape, lengths[i], &w);
        size_t kept = 2 * lanes_row_cells(&l), cells = l.rows * l.columns * l.width;
        size_t wave_kept = suits ? wave_cells(&w) : 0, wave_all = w.steps * LANES;
        kept = kept > wave_kept ? kept : wave_kept;
        cells = cells > wave_all ? cells : wave_all;
        room.kept = kept > room.kept ? kept : room.kept;
        room.cells = cells > room.cells ? cells : room.cells;
    }
    return room;
}

/* Fast codes cost at most all bits of each code, a kind and its extra byte a block. Outliers never make a chunk longer than a
 * raw one, which has room too. */
static size_t payload_room(const chunk_plan *plan)
{
    size_t n = longest_chunk(plan), blocks = n / BLOCK + 2;
    linear_shape s = {n, plan->shape.channels, plan->shape.columns};
    size_t coded = blocks * (BLOCK * code_bytes(widest(plan)) + 2) + linear_n_tiles(&s) * LINEAR_BYTES + WRITE_SLACK;
    return chunk_bound(n, comet_dtype_bytes(plan->dtype)) + coded + DENSE_FIXED_BYTES + READ_SLACK;
}

comet_status workspace_reserve_encoder(workspace *ws, const comet_allocator *allocator, const chunk_plan *plan)
{
    size_t n = longest_chunk(plan);
    comet_status status = reserve_codes(ws, allocator, plan, widest(plan));
    if (status == COMET_OK)
        status = comet_buffer_reserve(allocator, &ws->failed, (n / BLOCK + 2) * sizeof(uint64_t));
    if (status == COMET_OK)
        status = comet_buffer_reserve(allocator, &ws->residuals, QUANT_TILE * code_bytes(CODES64));
    if (status == COMET_OK)
        status = comet_buffer_reserve(allocator, &ws->aside, blocks_aside_bytes(n / BLOCK + 2));
    if (status == COMET_OK)
        status = comet_buffer_reserve(allocator, &ws->out, payload_room(plan));
    if (status != COMET_OK || plan->level == COMET_LEVEL_FAST)
        return status;
    if (plan->profile == COMET_PROFILE_DEVICE) {
        status = comet_buffer_reserve(allocator, &ws->symbols, parts_symbols_room(n));
        return status == COMET_OK ? comet_buffer_reserve(allocator, &ws->words, parts_words_room(n)) : status;
    }
    dense_room room = dense_room_of(plan, plan->waves);
    status = comet_buffer_reserve(allocator, &ws->cells, room.kept * code_bytes(CODES32));
    if (status == COMET_OK)
        status = comet_buffer_reserve(allocator, &ws->symbols, room.cells * sizeof(uint16_t));
    if (status == COMET_OK)
        status = comet_buffer_reserve(allocator, &ws->words, dense_words_room(room.cells) + dense_escapes_room(room.cells));
    return status;
}

comet_status workspace_reserve_decoder(workspace *ws, const comet_allocator *allocator, const chunk_plan *plan,
                                       const chunk_needs *needs)
{
    comet_status status = COMET_OK;
    if (needs->codes)
        status = reserve_codes(ws, allocator, plan, needs->width);
    if (status == COMET_OK && needs->copy_bytes)
        status = comet_buffer_reserve(allocator, &ws->out, needs->copy_bytes);
    if (status == COMET_OK && needs->dense)
        status = comet_buffer_reserve(allocator, &ws->cells, dense_room_of(plan, needs->waves).kept * code_bytes(needs->width));
    if (status == COMET_OK && needs->parts)
        status = comet_buffer_reserve(allocator, &ws->words, parts_cells_room());
    if (status == COMET_OK && (needs->dense || needs->parts))
        status = comet_buffer_reserve(allocator, &ws->table, sizeof(symbol_tables));
    return status;
}

void workspace_free(workspace *ws, const comet_allocator *allocator)
{
    comet_buffer *const all[] = {&ws->codes,   &ws->failed, &ws->residuals, &ws->aside, &ws->cells,
                                 &ws->symbols, &ws->words,  &ws->table,     &ws->out,   &ws->changed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        comet_buffer_free(allocator, all[i]);
}
