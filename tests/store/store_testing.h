/* What the tests of the activation store share: stores, slots and policies in a line each. */
#ifndef COMET_TESTS_STORE_TESTING_H
#define COMET_TESTS_STORE_TESTING_H

#include <math.h>
#include <stdlib.h>

#include "codec/elements.h"
#include "comet/store.h"
#include "store/slots.h"
#include "testing.h"

/* Checksums on; fails the test where it is refused. */
static inline comet_store *store_with(const comet_hooks *hooks, size_t n_workers, const char *spill_folder)
{
    comet_store_params p;
    comet_store_params_init(&p);
    p.hooks = hooks;
    p.n_workers = n_workers;
    p.checksums = true;
    p.spill_folder = spill_folder;
    comet_store *s = NULL;
    assert_ok(comet_store_create(&s, &p));
    return s;
}

static inline comet_slot_spec spec_of(const comet_tensor *t, comet_exactness exactness)
{
    comet_slot_spec spec;
    comet_slot_spec_init(&spec);
    spec.layer = "layer7";
    spec.exactness = exactness;
    spec.tensor = *t;
    spec.bytes = bytes_of(t);
    return spec;
}

static inline comet_slot declare(comet_store *s, const comet_slot_spec *spec)
{
    comet_slot slot = COMET_NO_SLOT;
    assert_ok(comet_store_declare(s, spec, &slot));
    return slot;
}

static inline comet_slot_policy policy_of(comet_policy kind, comet_level level, double eb)
{
    comet_slot_policy p;
    comet_slot_policy_init(&p);
    p.policy = kind;
    p.level = level;
    p.eb = eb;
    return p;
}

/* A slot of `t` held as `p` says. */
static inline comet_slot declare_with(comet_store *s, const comet_tensor *t, comet_exactness exactness, comet_slot_policy p)
{
    comet_slot_spec spec = spec_of(t, exactness);
    comet_slot slot = declare(s, &spec);
    assert_ok(comet_store_set_policy(s, slot, &p));
    return slot;
}

static inline comet_slot_report report_of(const comet_store *s, comet_slot slot)
{
    comet_slot_report r;
    comet_slot_report_init(&r);
    assert_ok(comet_store_describe_slot(s, slot, &r));
    return r;
}

static inline comet_store_totals totals_of(const comet_store *s)
{
    comet_store_totals t;
    comet_store_totals_init(&t);
    assert_ok(comet_store_describe(s, &t));
    return t;
}

/* Takes the whole slot into malloc'd memory. */
static inline void *take_copy(comet_store *s, comet_slot slot)
{
    void *room = need_malloc((size_t)comet_store_slot_spec(s, slot)->bytes), *data = NULL;
    assert_ok(comet_store_take(s, slot, room, &data));
    assert_ptr_equal(data, room);
    return room;
}

/* Against the values themselves; sums with a relative tolerance. */
static inline void check_figures(const comet_slot_report *r, const comet_tensor *t, const float *x, double tolerance)
{
    summary s = elements_summary(COMET_DTYPE_F32, x, elements_of(t));
    assert_int_equal(r->n_elements, elements_of(t));
    assert_int_equal(r->n_nonzero, s.n_nonzero);
    assert_int_equal(r->n_nonfinite, s.n_nonfinite);
    assert_near(r->sum_of_squares, s.sum_of_squares, tolerance * s.sum_of_squares);
    assert_true(r->min == s.min && r->max == s.max);
    assert_int_equal(r->bytes_raw, bytes_of(t));
    assert_int_equal(r->n_chunks_dense > 0, r->level == COMET_LEVEL_DENSE);
}

/* What comes back is within the bound, and as exact as was asked for. */
static inline void check_values(const comet_tensor *t, const comet_slot_policy *p, comet_exactness exactness, const float *x,
                                const float *y)
{
    comet_comparison c;
    comet_comparison_init(&c);
    double eb = p->policy == COMET_POLICY_LOSSLESS ? 0 : p->eb;
    assert_ok(comet_compare(COMET_DTYPE_F32, elements_of(t), x, y, eb, &c));
    assert_int_equal(c.n_violations, 0);
    if (!p->dither)
        assert_int_equal(c.n_zeros_kept, c.n_zeros);
    if (exactness != COMET_LOSSY)
        assert_int_equal(c.n_support_lost, 0);
    for (uint64_t i = 0; exactness != COMET_LOSSY && i < c.n_elements; i++)
        assert_true((x[i] > 0) == (y[i] > 0) && (x[i] < 0) == (y[i] < 0));
}

/* The same bytes are held. */
static inline void assert_same_tiles(const comet_store *a, comet_slot in_a, const comet_store *b, comet_slot in_b)
{
    const store_slot *p = a->slots[in_a], *q = b->slots[in_b];
    assert_int_equal(p->n_tiles, q->n_tiles);
    for (uint64_t k = 0; k < p->n_tiles; k++) {
        assert_int_equal(p->tiles[k].bytes, q->tiles[k].bytes);
        assert_memory_equal(p->tiles[k].place, q->tiles[k].place, p->tiles[k].bytes);
    }
}

#endif
