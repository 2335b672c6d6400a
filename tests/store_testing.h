/* What the tests of the activation store share: stores, slots and policies in a line each. */
#ifndef COMET_TESTS_STORE_TESTING_H
#define COMET_TESTS_STORE_TESTING_H

#include <math.h>
#include <stdlib.h>

#include "comet/store.h"
#include "store/activation_store.h"
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
    assert_ok(comet_store_slot_report(s, slot, &r));
    return r;
}

static inline comet_store_totals totals_of(const comet_store *s)
{
    comet_store_totals t;
    comet_store_totals_init(&t);
    assert_ok(comet_store_totals_read(s, &t));
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

#endif
