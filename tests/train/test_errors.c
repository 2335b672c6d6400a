/* Errors of weight gradients as training measures them, against their targets: every convolution of every net of the zoo. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "describing.h"
#include "training.h"

/* Assessments end after 2, 4, 8 and 16 steps, or 2, 4, 6, 8, 12 where bounds climb; the second is the first that measures
 * errors, those of predicted bounds. */
enum { STEPS = 16, FIRST_BY_MEASURED = 8, MOST_LINES = 512 };
static const double RATE = 5e-4;

typedef struct net_case {
    const char *name;
    uint32_t image, batch;
} net_case;

static const net_case cases[] = {{"cnn28", 28, 16},   {"resnet20", 32, 16}, {"resnet32", 32, 16}, {"resnet18", 64, 8},
                                 {"resnet50", 64, 8}, {"alexnet", 224, 4},  {"vgg16", 224, 2},    {"efficientnet_b0", 64, 32}};

typedef struct errors {
    bool measured[MOST_LINES]; /* of each line */
    double least, most;        /* to the target; the least of those at their limit */
    double squares;            /* sum of all */
    size_t n;
} errors;

/* A single measurement scatters: bounds aim at a mean square of the target's, no higher. */
static const double MOST_SINGLE = 1.5, MOST_MEAN = 1;

/* The lines of the last assessment. An error may be below half of its target only where another reader or the widest bound
 * makes it so. */
static void check_lines(const net_case *c, const comet_model *model, uint32_t step, errors *e)
{
    comet_assessment_line line = {.size = sizeof line};
    for (size_t i = 0; comet_model_describe_assessment(model, i, &line) == COMET_OK; i++) {
        const double ratio = line.sigma_measured / line.sigma_target;
        assert_true(i < MOST_LINES);
        if (isnan(ratio))
            continue;
        if (!(ratio < MOST_SINGLE) || (line.at_limit && !(ratio > 0.5)))
            fail_because("%s, step %d: the error of %s is %.2f of its target", c->name, (int)step, line.layer, ratio);
        e->measured[i] = true;
        e->most = fmax(e->most, ratio);
        e->squares += ratio * ratio;
        e->n++;
        if (line.at_limit)
            e->least = fmin(e->least, ratio);
    }
}

/* By its weights: a batch norm that is folded reads the input of a convolution too. */
static bool is_convolution(const comet_model *model, const char *layer)
{
    char name[COMET_MAX_LAYER_NAME + 16];
    comet_tensor_info info = {.size = sizeof info};
    snprintf(name, sizeof name, "%s.weight", layer);
    assert_ok(comet_model_describe_tensor(model, tensor_index(model, COMET_TENSOR_WEIGHT, name), &info));
    return info.n_dims == 4;
}

/* How many convolutions there are; each was measured. */
static size_t check_complete(const net_case *c, const comet_model *model, const bool measured[MOST_LINES])
{
    comet_assessment_line line = {.size = sizeof line};
    size_t n = 0;
    for (size_t i = 0; comet_model_describe_assessment(model, i, &line) == COMET_OK; i++)
        if (strcmp(line.what, "conv input") == 0 && is_convolution(model, line.layer)) {
            if (!measured[i])
                fail_because("%s: the error of %s was not measured", c->name, line.layer);
            n++;
        }
    return n;
}

static void check_net(const net_case *c)
{
    comet_net *net = NULL;
    assert_ok(comet_net_zoo(&net, c->name, 0, c->image, 10));
    comet_model_params p = trial_params(c->batch);
    p.compression.mode = COMET_COMPRESS_DENSE;
    p.n_threads = 2;
    trial t = trial_make(net, &p);
    errors e = {.least = NAN, .most = NAN};
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint64_t before = compression_of(t.model).n_assessments;
        trial_batch(&t, step);
        assert_true(isfinite(trial_gradients(&t, step)));
        assert_ok(comet_model_update(t.model, RATE, step));
        if (step + 1 >= FIRST_BY_MEASURED && compression_of(t.model).n_assessments > before)
            check_lines(c, t.model, step + 1, &e);
    }
    const size_t n = check_complete(c, t.model, e.measured);
    const double mean = sqrt(e.squares / (double)e.n);
    print_message("%s: errors of %d convolutions, %.2f to %.2f of their targets, root mean square %.2f\n", c->name, (int)n,
                  e.least, e.most, mean);
    assert_true(n > 0 && mean < MOST_MEAN);
    trial_free(&t);
    comet_net_destroy(net);
}

static const net_case *case_of(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    fail_because("%s has no case", name);
    return NULL;
}

static void test_every_net(void **state)
{
    (void)state;
    for (size_t i = 0; comet_zoo_name(i); i++)
        check_net(case_of(comet_zoo_name(i)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_net),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
