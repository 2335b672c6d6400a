/*
 * The inside of a net, and the tables that describe kinds of layers and their options. For the files of src/train/net.
 *
 * Invariants of a net: layers[0] is the input; every layer's inputs are smaller than its own number; names are unique; a
 * layer's fields that its kind does not use are as comet_layer_init leaves them; shapes have between 1 and NET_MAX_ELEMENTS
 * elements.
 */
#ifndef COMET_TRAIN_NET_NET_INTERNAL_H
#define COMET_TRAIN_NET_NET_INTERNAL_H

#include "comet/net.h"

#define NET_MAX_VALUES UINT32_C(65536)
#define NET_MAX_ELEMENTS UINT64_C(0x7fffffff) /* of a value for one image, and of a layer's weights */
#define NET_NO_VALUE UINT32_MAX

struct comet_net {
    char name[COMET_MAX_LAYER_NAME];
    uint32_t n_values, capacity;
    comet_layer *layers; /* capacity of them, as of shapes */
    comet_shape *shapes;
    uint32_t *slots; /* hash table of names: 2 * capacity values or NET_NO_VALUE */
};

/* The value of this name, or NET_NO_VALUE. The name need not end with a zero. */
uint32_t net_find(const comet_net *net, const char *name, size_t length);

/* What is wrong with the `length` characters of a name, as a sentence without subject; NULL if nothing is. */
const char *net_name_fault(const char *name, size_t length);

/* ---- options of layers ---- */

typedef enum key_kind { KEY_COUNT, KEY_PAIR, KEY_BOOL, KEY_INIT, KEY_FLOAT } key_kind;

/* An option: the word of the text format and the field it stands for. Ranges are inclusive. */
typedef struct layer_key {
    const char *word;
    key_kind kind;
    uint32_t ops; /* bit 1 << op: the kinds of layer that have it */
    size_t offset, bytes;
    double min, max;
    const char *range; /* min and max in words */
    bool required;
} layer_key;

#define NET_N_KEYS 17
extern const layer_key net_keys[NET_N_KEYS];

static inline bool key_is_for(const layer_key *key, comet_op op)
{
    return (key->ops >> op & 1) != 0;
}

static inline const void *key_field(const layer_key *key, const comet_layer *layer)
{
    return (const char *)layer + key->offset;
}

/* What other frameworks call an option or a kind of layer, for nearest_offer_for. */
const char *net_key_synonyms(const char *word);
const char *net_op_synonyms(comet_op op);

/* Word of an initialisation ("he_fan_out"); NULL past the end. */
const char *net_init_word(size_t init);

/* COMET_ERROR_ARGUMENT where an option of the layer is missing or out of its range. */
comet_status net_check_keys(const comet_layer *layer);

/* ---- shapes ---- */

/* Numbers of inputs that the kind of layer takes. */
uint32_t net_min_inputs(comet_op op);
uint32_t net_max_inputs(comet_op op);

/* Shape of the layer's output. The inputs exist, their number and every option are in range. */
comet_status net_infer_shape(const comet_net *net, const comet_layer *layer, comet_shape *shape);

/* COMET_ERROR_ARGUMENT where the shape of `name`'s output is empty or too large. */
comet_status net_check_elements(const char *name, uint64_t channels, uint64_t height, uint64_t width);

#endif
