/* Tensors and parameters chosen by the input: two encoders, one with the reference's kernels on one thread, one with the best
 * and its tasks in reverse, give the same bytes; what comes back keeps the promise. */
#include <stdio.h>

#include "fuzz/promise.h"
#include "fuzz/roundtrip_input.h"

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "broken: %s (%s)\n", what, comet_last_error());
    abort();
}

static void run_reversed(void *user, size_t n_tasks, void (*task)(void *arg, size_t index), void *arg)
{
    (void)user;
    for (size_t i = n_tasks; i-- > 0;)
        task(arg, i);
}

typedef struct contexts {
    comet_encoder *encoders[2];
    comet_decoder *decoders[2];
} contexts;

static contexts make_contexts(void)
{
    contexts c;
    comet_hooks hooks;
    comet_hooks_init(&hooks);
    for (int i = 0; i < 2; i++) {
        comet_isa_set_cap(i ? comet_isa_best() : COMET_ISA_REFERENCE);
        hooks.parallel.run = i ? run_reversed : NULL;
        require(comet_encoder_create(&c.encoders[i], &hooks, i ? 3 : 1) == COMET_OK, "create");
        require(comet_decoder_create(&c.decoders[i], &hooks, i ? 3 : 1) == COMET_OK, "create");
    }
    return c;
}

/* Decodes with both decoders and checks the promise. */
static void check_decoded(const contexts *c, const roundtrip_input *in, const uint8_t *frame, size_t bytes)
{
    comet_frame_info info;
    comet_frame_info_init(&info);
    require(comet_frame_describe(frame, bytes, &info) == COMET_OK, "frame information");
    promise p = promise_of(&info);
    void *y[2];
    for (int i = 0; i < 2; i++) {
        size_t written = 0;
        y[i] = malloc(in->bytes + !in->bytes);
        require(comet_decoder_run(c->decoders[i], frame, bytes, y[i], in->bytes, &written) == COMET_OK, "decoding");
        require(written == in->bytes, "length");
    }
    require(promise_first_broken(&p, in->tensor.dtype, in->n, in->x, y[0]) == in->n, "the promise");
    require(memcmp(y[0], y[1], in->bytes) == 0, "two decoders agree");
    free(y[0]);
    free(y[1]);
}

static void round_trip(const contexts *c, const roundtrip_input *in)
{
    size_t bound = 0, bytes[2] = {0, 0};
    require(comet_compress_bound(&in->tensor, &in->params, &bound) == COMET_OK, "bound");
    uint8_t *frames[2] = {malloc(bound), malloc(bound)};
    comet_status status[2];
    for (int i = 0; i < 2; i++)
        status[i] = comet_encoder_run(c->encoders[i], &in->tensor, &in->params, in->x, frames[i], bound, &bytes[i], NULL);
    require(status[0] == status[1], "two encoders agree");
    if (status[0] == COMET_OK) {
        require(bytes[0] == bytes[1] && bytes[0] <= bound && memcmp(frames[0], frames[1], bytes[0]) == 0, "same bytes");
        check_decoded(c, in, frames[0], bytes[0]);
    } else { /* a ratio out of reach, or a relative bound that overflows */
        require(status[0] == COMET_ERROR_UNREACHABLE || status[0] == COMET_ERROR_ARGUMENT, "status");
        require(in->params.bound_mode != COMET_BOUND_ABSOLUTE && in->params.bound_mode != COMET_BOUND_LOSSLESS,
                "absolute works");
    }
    free(frames[0]);
    free(frames[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static contexts c;
    roundtrip_input in;
    if (!c.encoders[0])
        c = make_contexts();
    if (roundtrip_read(data, size, &in)) {
        round_trip(&c, &in);
        free(in.x);
    }
    return 0;
}
