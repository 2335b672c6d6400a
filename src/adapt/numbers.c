/* The state of the adaptive bound as numbers for checkpoints. All are finite; -1 stands for "infinite" or "unknown". */
#include "adapt/state.h"
#include "base/status.h"

/* Whole numbers up to here are exact in a double. */
static const double EXACT_WHOLE = 9007199254740992.0;

enum { VERSION = 8, N_HEAD = 7, N_PER_TENSOR = 4, N_PER_CONSUMER = 29 };

static double pack(double x)
{
    return isfinite(x) ? x : -1;
}

static double unpack(double x, double otherwise)
{
    return x < 0 ? otherwise : x;
}

size_t adapt_n_numbers(const adapt *a)
{
    return N_HEAD + (size_t)N_PER_TENSOR * a->n_tensors + (size_t)N_PER_CONSUMER * a->n_consumers;
}

void adapt_export(const adapt *a, double *numbers)
{
    double *x = numbers;
    const double head[N_HEAD] = {VERSION,         a->n_tensors,   a->n_consumers,       (double)a->first,
                                 (double)a->next, (double)a->gap, (double)a->n_assessed};
    for (size_t i = 0; i < N_HEAD; i++)
        *x++ = head[i];
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const tensor_state *t = &a->tensors[i];
        *x++ = (double)t->n_elements;
        *x++ = pack(t->eb);
        *x++ = pack(t->last);
        *x++ = t->stored;
    }
    for (uint32_t i = 0; i < a->n_consumers; i++) {
        const consumer_state *c = &a->consumers[i];
        const collection *k = &c->collected;
        const double own[N_PER_CONSUMER] = {(double)c->n_weights,
                                            c->tensor,
                                            c->known,
                                            c->limits,
                                            c->harm_measured,
                                            c->at_limit,
                                            c->reference,
                                            c->harm,
                                            pack(c->allowed),
                                            pack(c->limit),
                                            pack(c->measured),
                                            c->gain,
                                            k->n,
                                            k->gain,
                                            k->reference,
                                            k->eb,
                                            k->n_measured,
                                            k->measured,
                                            k->harm,
                                            k->measured_reference,
                                            c->errors[0].n,
                                            c->errors[0].quotients,
                                            c->errors[1].n,
                                            c->errors[1].quotients,
                                            c->aim,
                                            c->scatter.n,
                                            c->scatter.n_squares,
                                            c->scatter.sum,
                                            c->scatter.squares};
        for (size_t j = 0; j < N_PER_CONSUMER; j++)
            *x++ = own[j];
    }
}

static bool is_flag(double x)
{
    return x == 0 || x == 1;
}

static bool is_whole(double x)
{
    return x >= 0 && x <= EXACT_WHOLE && x == floor(x);
}

static bool is_packed(double x)
{
    return usable(x) || x == -1;
}

static bool head_fits(const adapt *a, const double *x)
{
    return x[0] == VERSION && x[1] == a->n_tensors && x[2] == a->n_consumers && is_whole(x[3]) && is_whole(x[4]) &&
           is_whole(x[5]) && x[5] >= 1 && is_whole(x[6]);
}

static bool tensor_fits(const tensor_state *t, const double *x)
{
    return x[0] == (double)t->n_elements && is_packed(x[1]) && is_packed(x[2]) && usable(x[3]);
}

static bool consumer_fits(const consumer_state *c, const double *x)
{
    bool fits = x[0] == (double)c->n_weights && x[1] == c->tensor && is_whole(x[12]) && is_whole(x[16]);
    for (size_t i = 2; i < 6; i++)
        fits = fits && is_flag(x[i]);
    for (size_t i = 8; i < 11; i++)
        fits = fits && is_packed(x[i]);
    for (size_t i = 6; i < N_PER_CONSUMER; i++)
        fits = fits && (usable(x[i]) || (i >= 8 && i < 11));
    return fits;
}

static bool numbers_fit(const adapt *a, const double *x, size_t n)
{
    if (n != adapt_n_numbers(a) || !head_fits(a, x))
        return false;
    x += N_HEAD;
    bool fit = true;
    for (uint32_t i = 0; i < a->n_tensors; i++, x += N_PER_TENSOR)
        fit = fit && tensor_fits(&a->tensors[i], x);
    for (uint32_t i = 0; i < a->n_consumers; i++, x += N_PER_CONSUMER)
        fit = fit && consumer_fits(&a->consumers[i], x);
    return fit;
}

static void import_consumer(consumer_state *c, const double *x)
{
    c->known = x[2] != 0;
    c->limits = x[3] != 0;
    c->harm_measured = x[4] != 0;
    c->at_limit = x[5] != 0;
    c->reference = x[6];
    c->harm = x[7];
    c->allowed = unpack(x[8], NAN);
    c->limit = unpack(x[9], INFINITY);
    c->measured = unpack(x[10], NAN);
    c->gain = x[11];
    c->collected = (collection){.n = x[12],
                                .gain = x[13],
                                .reference = x[14],
                                .eb = x[15],
                                .n_measured = x[16],
                                .measured = x[17],
                                .harm = x[18],
                                .measured_reference = x[19]};
    c->errors[0] = (error_history){.n = x[20], .quotients = x[21]};
    c->errors[1] = (error_history){.n = x[22], .quotients = x[23]};
    c->aim = x[24];
    c->scatter = (error_scatter){.n = x[25], .n_squares = x[26], .sum = x[27], .squares = x[28]};
}

comet_status adapt_import(adapt *a, const double *numbers, size_t n)
{
    const double *x = numbers;
    if (!numbers_fit(a, x, n))
        return comet_fail(COMET_ERROR_CORRUPT, "%zu numbers are not the state of %u adaptive bounds with %u consumers", n,
                          a->n_tensors, a->n_consumers);
    a->first = (uint64_t)x[3];
    a->next = (uint64_t)x[4];
    /* The run may have resumed with a shorter window. */
    a->gap = x[5] < a->params.window ? (uint64_t)x[5] : a->params.window;
    a->n_assessed = (uint64_t)x[6];
    x += N_HEAD;
    for (uint32_t i = 0; i < a->n_tensors; i++, x += N_PER_TENSOR) {
        a->tensors[i].eb = unpack(x[1], INFINITY);
        a->tensors[i].last = unpack(x[2], INFINITY);
        a->tensors[i].stored = x[3];
    }
    for (uint32_t i = 0; i < a->n_consumers; i++, x += N_PER_CONSUMER)
        import_consumer(&a->consumers[i], x);
    adapt_distribute_shares(a);
    return COMET_OK;
}
