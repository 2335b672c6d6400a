/* A zoo of small frames, at least one of every kind that the format knows. Golden files, damage tests and fuzz corpora are made
 * of them. */
#ifndef COMET_TESTS_ZOO_H
#define COMET_TESTS_ZOO_H

#include "codec/frame.h"
#include "testing.h"

enum { ANY_PREDICTOR = 255 };

typedef struct zoo_kind {
    const char *name;
    comet_dtype dtype;
    comet_layout layout;
    uint64_t dims[4]; /* (N, C, H, W) */
    enum data_class data;
    comet_level level;
    comet_bound_mode bound_mode;
    double bound;
    enum { ZOO_PLAIN, ZOO_SUPPORT, ZOO_DITHER, ZOO_CHECKSUM, ZOO_DEVICE } option;
    uint64_t chunk_elements; /* 0: the default */
    /* What the first chunk should turn out to be, so that no kind goes missing unnoticed. */
    enum chunk_mode mode;
    unsigned predictor;
    enum code_width width;
} zoo_kind;

extern const zoo_kind zoo[];
extern const size_t zoo_size;

typedef struct specimen {
    comet_tensor tensor;
    comet_params params;
    void *x;
} specimen;

specimen specimen_make(const zoo_kind *kind);
void specimen_free(specimen *s);

blob zoo_frame(const zoo_kind *kind);

/* Fails the test where the first chunk is not what the table says. */
void zoo_check(const zoo_kind *kind, blob frame);

#endif
