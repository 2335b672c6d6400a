/* Nets: creation, names, adding layers with every check. Shapes are in net_shape.c, options in net_keys.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/status.h"
#include "train/net/net_internal.h"

/* ---- names ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

const char *net_name_fault(const char *name, size_t length)
{
    if (length == 0)
        return "is empty";
    if (length >= COMET_MAX_LAYER_NAME)
        return "is longer than 95 characters";
    for (size_t i = 0; i < length; i++)
        if (!is_name_char(name[i]))
            return "has characters other than letters, digits, '_', '.' and '-'";
    return NULL;
}

_Static_assert(COMET_MAX_LAYER_NAME == 96, "net_name_fault says the number");

/* The place of the name in the table of names, or the free place where it would go. */
static size_t find_slot(const comet_net *net, const char *name, size_t length)
{
    const size_t mask = 2 * (size_t)net->capacity - 1;
    size_t at = (size_t)comet_checksum(name, length) & mask;
    for (; net->slots[at] != NET_NO_VALUE; at = (at + 1) & mask) {
        const char *other = net->layers[net->slots[at]].name;
        if (strncmp(other, name, length) == 0 && other[length] == '\0')
            break;
    }
    return at;
}

uint32_t net_find(const comet_net *net, const char *name, size_t length)
{
    return length < COMET_MAX_LAYER_NAME ? net->slots[find_slot(net, name, length)] : NET_NO_VALUE;
}

/* ---- memory ---- */

static void fill_slots(comet_net *net)
{
    for (size_t i = 0; i < 2 * (size_t)net->capacity; i++)
        net->slots[i] = NET_NO_VALUE;
    for (uint32_t v = 0; v < net->n_values; v++)
        net->slots[find_slot(net, net->layers[v].name, strlen(net->layers[v].name))] = v;
}

/* Makes room for `capacity` values, a power of two. After a failure the net is as before. */
static comet_status reserve(comet_net *net, uint32_t capacity)
{
    comet_layer *layers = realloc(net->layers, capacity * sizeof *layers);
    if (layers)
        net->layers = layers;
    comet_shape *shapes = realloc(net->shapes, capacity * sizeof *shapes);
    if (shapes)
        net->shapes = shapes;
    uint32_t *slots = malloc(2 * capacity * sizeof *slots);
    if (!layers || !shapes || !slots) {
        free(slots);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a net of %u layers", capacity);
    }
    free(net->slots);
    net->slots = slots;
    net->capacity = capacity;
    fill_slots(net);
    return COMET_OK;
}

static comet_status append(comet_net *net, const comet_layer *layer, comet_shape shape)
{
    if (net->n_values == NET_MAX_VALUES)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: the net has %u layers already, which is the limit", layer->name,
                          net->n_values - 1);
    if (net->n_values == net->capacity) {
        comet_status status = reserve(net, 2 * net->capacity);
        if (status != COMET_OK)
            return status;
    }
    net->layers[net->n_values] = *layer;
    net->shapes[net->n_values] = shape;
    net->slots[find_slot(net, layer->name, strlen(layer->name))] = net->n_values;
    net->n_values++;
    return COMET_OK;
}

comet_status comet_net_create(comet_net **net, const char *name, uint32_t channels, uint32_t height, uint32_t width)
{
    if (!net || !name)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_net_create needs a place for the net and a name");
    const char *fault = net_name_fault(name, strlen(name));
    if (fault)
        return comet_fail(COMET_ERROR_ARGUMENT, "the net's name %s", fault);
    comet_status status = net_check_elements("input", channels, height, width);
    if (status != COMET_OK)
        return status;
    comet_net *made = calloc(1, sizeof *made);
    if (!made)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate a net");
    memcpy(made->name, name, strlen(name) + 1);
    comet_layer input;
    comet_layer_init(&input, COMET_OP_INPUT, "input");
    status = reserve(made, 32);
    if (status == COMET_OK)
        status = append(made, &input, (comet_shape){channels, height, width, false});
    if (status == COMET_OK)
        *net = made;
    else
        comet_net_destroy(made);
    return status;
}

void comet_net_destroy(comet_net *net)
{
    if (!net)
        return;
    free(net->layers);
    free(net->shapes);
    free(net->slots);
    free(net);
}

/* ---- layers ---- */

void comet_layer_init(comet_layer *layer, comet_op op, const char *name)
{
    memset(layer, 0, sizeof *layer);
    layer->size = sizeof *layer;
    layer->op = op;
    snprintf(layer->name, sizeof layer->name, "%s", name ? name : "");
    layer->bias = op == COMET_OP_CONV || op == COMET_OP_LINEAR;
    if (op == COMET_OP_CONV) {
        layer->stride[0] = layer->stride[1] = 1;
        layer->dilation[0] = layer->dilation[1] = 1;
        layer->groups = 1;
    } else if (op == COMET_OP_BATCH_NORM) {
        layer->eps = 1e-5f;
        layer->momentum = 0.1f;
    } else if (op == COMET_OP_DROPOUT) {
        layer->p = 0.5f;
    } else if (op == COMET_OP_LRN) {
        layer->lrn_size = 5;
        layer->lrn_alpha = 1e-4f;
        layer->lrn_beta = 0.75f;
        layer->lrn_k = 1;
    }
}

/* The layer as the net keeps it: fields that its kind does not use have their defaults, and a pool has a stride. */
static comet_layer canonical(const comet_layer *layer)
{
    comet_layer l;
    comet_layer_init(&l, layer->op, layer->name);
    l.n_inputs = layer->n_inputs;
    memcpy(l.inputs, layer->inputs, layer->n_inputs * sizeof *l.inputs);
    for (size_t i = 0; i < NET_N_KEYS; i++)
        if (key_is_for(&net_keys[i], l.op))
            memcpy((char *)&l + net_keys[i].offset, key_field(&net_keys[i], layer), net_keys[i].bytes);
    const bool pool = l.op == COMET_OP_MAX_POOL || l.op == COMET_OP_AVG_POOL;
    if (pool && l.stride[0] == 0 && l.stride[1] == 0)
        memcpy(l.stride, l.kernel, sizeof l.stride);
    return l;
}

static comet_status check_name(const comet_net *net, const comet_layer *layer)
{
    const char *end = memchr(layer->name, '\0', sizeof layer->name);
    const size_t length = end ? (size_t)(end - layer->name) : sizeof layer->name;
    const char *fault = net_name_fault(layer->name, length);
    if (fault)
        return comet_fail(COMET_ERROR_ARGUMENT, "layer %u: its name %s", net->n_values, fault);
    const uint32_t same = net_find(net, layer->name, length);
    if (same == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: this is the name of the net's input", layer->name);
    if (same != NET_NO_VALUE)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: layer %u, a %s, has this name already", layer->name, same,
                          comet_op_name(net->layers[same].op));
    return COMET_OK;
}

static comet_status check_inputs(const comet_net *net, const comet_layer *layer)
{
    const uint32_t least = net_min_inputs(layer->op), most = net_max_inputs(layer->op), n = layer->n_inputs;
    if ((n < least || n > most) && least == most)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s takes %u input%s, not %u", layer->name, comet_op_name(layer->op), least,
                          least == 1 ? "" : "s", n);
    if (n < least || n > most)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s takes %u to %u inputs, not %u", layer->name, comet_op_name(layer->op),
                          least, most, n);
    for (uint32_t i = 0; i < n; i++)
        if (layer->inputs[i] >= net->n_values)
            return comet_fail(COMET_ERROR_ARGUMENT, "%s: input %u is value %u, but the net has values 0 to %u so far",
                              layer->name, i, layer->inputs[i], net->n_values - 1);
    return COMET_OK;
}

comet_status comet_net_add(comet_net *net, const comet_layer *layer, uint32_t *value)
{
    if (!net || !layer)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_net_add needs a net and a layer");
    if (layer->size != sizeof *layer)
        return comet_fail(COMET_ERROR_ARGUMENT, "the layer was not filled by comet_layer_init (size %zu)", layer->size);
    comet_status status = check_name(net, layer);
    if (status != COMET_OK)
        return status;
    if ((int)layer->op <= COMET_OP_INPUT || (int)layer->op >= COMET_N_OPS)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: op %d is not a kind of layer", layer->name, (int)layer->op);
    status = check_inputs(net, layer);
    if (status != COMET_OK)
        return status;
    const comet_layer own = canonical(layer);
    comet_shape shape;
    status = net_check_keys(&own);
    if (status == COMET_OK)
        status = net_infer_shape(net, &own, &shape);
    if (status == COMET_OK)
        status = append(net, &own, shape);
    if (status == COMET_OK && value)
        *value = net->n_values - 1;
    return status;
}

/* ---- what stands in a net ---- */

const char *comet_net_name(const comet_net *net)
{
    return net->name;
}

uint32_t comet_net_n_values(const comet_net *net)
{
    return net->n_values;
}

const comet_layer *comet_net_layer(const comet_net *net, uint32_t value)
{
    return value < net->n_values ? &net->layers[value] : NULL;
}

comet_shape comet_net_shape(const comet_net *net, uint32_t value)
{
    return value < net->n_values ? net->shapes[value] : (comet_shape){0, 0, 0, false};
}
