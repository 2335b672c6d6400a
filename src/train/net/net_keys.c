/* Options of layers as a table: words, fields, ranges. The text format is read and written from it, and comet_net_add checks
 * with it. */
#include <float.h>
#include <string.h>

#include "base/status.h"
#include "train/net/net_internal.h"

#define OPS(op) (UINT32_C(1) << COMET_OP_##op)
#define WITH_WEIGHTS (OPS(CONV) | OPS(LINEAR))
#define POOLS (OPS(MAX_POOL) | OPS(AVG_POOL))
#define FIELD(name) offsetof(comet_layer, name), sizeof(((comet_layer *)NULL)->name)

#define MAX_CHANNELS 16777216
#define MAX_WINDOW 65536
#define BELOW_1 0x1.fffffep-1 /* the largest float below 1 */

const layer_key net_keys[NET_N_KEYS] = {
    {"out", KEY_COUNT, WITH_WEIGHTS, FIELD(out_channels), 1, MAX_CHANNELS, "1 to 16777216", true},
    {"kernel", KEY_PAIR, OPS(CONV) | POOLS, FIELD(kernel), 1, MAX_WINDOW, "1 to 65536", true},
    {"stride", KEY_PAIR, OPS(CONV) | POOLS, FIELD(stride), 1, MAX_WINDOW, "1 to 65536", false},
    {"pad", KEY_PAIR, OPS(CONV) | POOLS, FIELD(padding), 0, MAX_WINDOW, "0 to 65536", false},
    {"dilation", KEY_PAIR, OPS(CONV), FIELD(dilation), 1, MAX_WINDOW, "1 to 65536", false},
    {"groups", KEY_COUNT, OPS(CONV), FIELD(groups), 1, MAX_CHANNELS, "1 to 16777216", false},
    {"bias", KEY_BOOL, WITH_WEIGHTS, FIELD(bias), 0, 1, "yes or no", false},
    {"init", KEY_INIT, WITH_WEIGHTS, FIELD(init), 0, COMET_INIT_UNIFORM_FAN_OUT, "0 to 3", false},
    {"ceil", KEY_BOOL, POOLS, FIELD(ceil_mode), 0, 1, "yes or no", false},
    {"eps", KEY_FLOAT, OPS(BATCH_NORM), FIELD(eps), FLT_MIN, 1, "above 0, up to 1", false},
    {"momentum", KEY_FLOAT, OPS(BATCH_NORM), FIELD(momentum), 0, 1, "0 to 1", false},
    {"p", KEY_FLOAT, OPS(DROPOUT), FIELD(p), 0, BELOW_1, "0 to below 1", false},
    {"per_sample", KEY_BOOL, OPS(DROPOUT), FIELD(per_sample), 0, 1, "yes or no", false},
    {"size", KEY_COUNT, OPS(LRN), FIELD(lrn_size), 1, MAX_WINDOW, "1 to 65536", true},
    {"alpha", KEY_FLOAT, OPS(LRN), FIELD(lrn_alpha), 0, FLT_MAX, "0 or more", false},
    {"beta", KEY_FLOAT, OPS(LRN), FIELD(lrn_beta), 0, FLT_MAX, "0 or more", false},
    {"k", KEY_FLOAT, OPS(LRN), FIELD(lrn_k), FLT_MIN, FLT_MAX, "above 0", false},
};

const char *net_key_synonyms(const char *word)
{
    static const char *const table[][2] = {
        {"out", " channels features filters n numfilters numoutput outchannels outfeatures output outputs units width "},
        {"kernel", " filtersize k kernelshape kernelsize ksize poolsize size window windowsize "},
        {"stride", " step strides subsample "},
        {"pad", " p padding pads "},
        {"dilation", " atrous dilationrate dilations rate "},
        {"groups", " group ngroups numgroups "},
        {"bias", " biasterm usebias "},
        {"init", " initialisation initializer initialiser kernelinitializer weightinit "},
        {"ceil", " ceilmode "},
        {"eps", " epsilon "},
        {"p", " drop droprate prob probability rate ratio "},
        {"per_sample", " droppath noiseshape stochasticdepth "},
        {"size", " depthradius localsize n window "},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i][0], word) == 0)
            return table[i][1];
    return "";
}

const char *net_op_synonyms(comet_op op)
{
    switch (op) {
    case COMET_OP_CONV: return " conv1d conv2d convolution convolution2d convolutional depthwise depthwiseconv2d ";
    case COMET_OP_LINEAR: return " affine dense fc fullyconnected gemm innerproduct matmul ";
    case COMET_OP_BATCH_NORM: return " batchnorm2d batchnormalisation batchnormalization bn norm ";
    case COMET_OP_SILU: return " swish ";
    case COMET_OP_SIGMOID: return " logistic ";
    case COMET_OP_MAX_POOL: return " maxpool maxpool2d maxpooling maxpooling2d pool pooling ";
    case COMET_OP_AVG_POOL: return " averagepool averagepooling averagepooling2d avgpool avgpool2d avgpooling meanpool ";
    case COMET_OP_GLOBAL_AVG_POOL:
        return " adaptiveavgpool adaptiveavgpool2d gap globalaveragepool globalaveragepooling globalaveragepooling2d "
               "globalavgpooling globalpool ";
    case COMET_OP_LRN: return " localresponsenorm localresponsenormalization ";
    case COMET_OP_DROPOUT: return " drop dropout2d droppath spatialdropout2d stochasticdepth ";
    case COMET_OP_ADD: return " elementwiseadd plus residual shortcut skip sum ";
    case COMET_OP_MULTIPLY: return " elementwisemul mul product scale ";
    case COMET_OP_CONCAT: return " cat concatenate join route ";
    case COMET_OP_FLATTEN: return " reshape view ";
    default: return "";
    }
}

const char *net_init_word(size_t init)
{
    static const char *const words[] = {"default", "he_fan_out", "normal_001", "uniform_fan_out"};
    return init < sizeof words / sizeof *words ? words[init] : NULL;
}

static bool inside(const layer_key *key, double number)
{
    return number >= key->min && number <= key->max;
}

static comet_status check_pair(const layer_key *key, const comet_layer *layer, const uint32_t *pair)
{
    if (key->required && pair[0] == 0 && pair[1] == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s is missing (%s)", layer->name, key->word, key->range);
    if (!inside(key, pair[0]) || !inside(key, pair[1]))
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s %u x %u is out of range: %s", layer->name, key->word, pair[0], pair[1],
                          key->range);
    return COMET_OK;
}

static comet_status check_count(const layer_key *key, const comet_layer *layer, uint32_t count)
{
    if (key->required && count == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s is missing (%s)", layer->name, key->word, key->range);
    if (!inside(key, count))
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s %u is out of range: %s", layer->name, key->word, count, key->range);
    return COMET_OK;
}

static comet_status check_float(const layer_key *key, const comet_layer *layer, float number)
{
    if (!inside(key, (double)number))
        return comet_fail(COMET_ERROR_ARGUMENT, "%s: %s %g is out of range: %s", layer->name, key->word, (double)number,
                          key->range);
    return COMET_OK;
}

static comet_status check_key(const layer_key *key, const comet_layer *layer)
{
    const void *field = key_field(key, layer);
    switch (key->kind) {
    case KEY_COUNT: return check_count(key, layer, *(const uint32_t *)field);
    case KEY_PAIR: return check_pair(key, layer, field);
    case KEY_INIT: return check_count(key, layer, (uint32_t) * (const comet_init *)field);
    case KEY_FLOAT: return check_float(key, layer, *(const float *)field);
    case KEY_BOOL: break;
    }
    return COMET_OK;
}

comet_status net_check_keys(const comet_layer *layer)
{
    comet_status status = COMET_OK;
    for (size_t i = 0; status == COMET_OK && i < NET_N_KEYS; i++)
        if (key_is_for(&net_keys[i], layer->op))
            status = check_key(&net_keys[i], layer);
    return status;
}
