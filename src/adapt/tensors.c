/* Tensors and their consumers: create, add, look up. */
#include <stdlib.h>

#include "adapt/state.h"
#include "base/status.h"

comet_status adapt_create(adapt **out, const adapt_params *params)
{
    if (!(params->share > 0) || !isfinite(params->share) || params->window == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "the share %g must be above 0 and the window %u at least 1", params->share,
                          params->window);
    if (params->rule != ADAPT_NOISE && params->rule != ADAPT_SIGMA)
        return comet_fail(COMET_ERROR_ARGUMENT, "unknown rule %d for the adaptive bound", (int)params->rule);
    adapt *a = calloc(1, sizeof *a);
    if (!a)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu bytes for the adaptive bound", sizeof *a);
    a->params = *params;
    adapt_plan_restart(a, 0);
    *out = a;
    return COMET_OK;
}

void adapt_destroy(adapt *a)
{
    if (a) {
        free(a->tensors);
        free(a->consumers);
    }
    free(a);
}

/* Room for one more item of `bytes` bytes. */
static comet_status grow(void **items, uint32_t n, uint32_t *capacity, size_t bytes)
{
    if (n < *capacity)
        return COMET_OK;
    const uint32_t more = *capacity ? 2 * *capacity : 64;
    void *larger = realloc(*items, more * bytes);
    if (!larger)
        return comet_fail(COMET_ERROR_MEMORY,
                          "out of memory: could not allocate %u entries of %zu bytes for the adaptive bound", more, bytes);
    *items = larger;
    *capacity = more;
    return COMET_OK;
}

comet_status adapt_add_tensor(adapt *a, const char *name, uint64_t n_elements, uint32_t *tensor)
{
    if (n_elements == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "tensor %s has no elements to bound", name);
    void *items = a->tensors;
    TRY(grow(&items, a->n_tensors, &a->tensor_capacity, sizeof *a->tensors));
    a->tensors = items;
    a->tensors[a->n_tensors] = (tensor_state){.name = name, .n_elements = n_elements};
    *tensor = a->n_tensors++;
    return COMET_OK;
}

static comet_status add_consumer(adapt *a, const consumer_state *c, uint32_t *consumer)
{
    if (c->tensor >= a->n_tensors)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s reads tensor %u of %u", c->name, c->tensor, a->n_tensors);
    void *items = a->consumers;
    TRY(grow(&items, a->n_consumers, &a->consumer_capacity, sizeof *a->consumers));
    a->consumers = items;
    a->consumers[a->n_consumers] = *c;
    *consumer = a->n_consumers++;
    return COMET_OK;
}

static consumer_state new_consumer(uint32_t tensor, const char *name, uint64_t n_weights)
{
    consumer_state c = {
        .name = name, .n_weights = n_weights, .tensor = tensor, .share = 1, .allowed = NAN, .limit = INFINITY, .measured = NAN};
    adapt_reset_aim(&c);
    return c;
}

comet_status adapt_add_parameter(adapt *a, uint32_t tensor, const char *name, uint64_t n_weights, uint32_t *consumer)
{
    if (n_weights == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "parameter %s has no weights", name);
    const consumer_state c = new_consumer(tensor, name, n_weights);
    return add_consumer(a, &c, consumer);
}

comet_status adapt_add_pass(adapt *a, uint32_t tensor, const char *name, uint32_t *consumer)
{
    const consumer_state c = new_consumer(tensor, name, 0);
    return add_consumer(a, &c, consumer);
}

uint32_t adapt_n_consumers(const adapt *a)
{
    return a->n_consumers;
}

uint32_t adapt_consumer_tensor(const adapt *a, uint32_t consumer)
{
    return consumer < a->n_consumers ? a->consumers[consumer].tensor : ADAPT_NONE;
}

const char *adapt_consumer_name(const adapt *a, uint32_t consumer)
{
    return consumer < a->n_consumers ? a->consumers[consumer].name : "";
}

bool adapt_is_parameter(const adapt *a, uint32_t consumer)
{
    return consumer < a->n_consumers && is_parameter(&a->consumers[consumer]);
}
