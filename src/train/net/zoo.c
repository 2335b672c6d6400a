/*
 * Built-in nets, with the layers, names, initialisations and rates of torchvision's, so that parameters can be exchanged by
 * name. Layers stand in the order in which torch runs them; an activation comes right after what it belongs to; a residual add
 * has the branch first and the identity second.
 *
 * Torch runs one relu module of a residual block several times; here the one after the sum is BLOCK.relu and those inside are
 * BLOCK.relu1, BLOCK.relu2.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/status.h"
#include "comet/net.h"

/* A net under construction. After the first failure nothing more is added. */
typedef struct builder {
    comet_net *net;
    comet_status status;
    uint32_t classes;
    char name[COMET_MAX_LAYER_NAME]; /* of the next layer */
} builder;

/* Formats the name of the layer that is added next; valid until the next call. */
static const char *named(builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static const char *named(builder *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->name, sizeof b->name, format, args);
    va_end(args);
    return b->name;
}

static uint32_t put(builder *b, comet_layer *layer, uint32_t input)
{
    uint32_t value = 0;
    layer->n_inputs = 1;
    layer->inputs[0] = input;
    if (b->status == COMET_OK)
        b->status = comet_net_add(b->net, layer, &value);
    return value;
}

/* A layer without options. */
static uint32_t plain(builder *b, comet_op op, const char *name, uint32_t input)
{
    comet_layer layer;
    comet_layer_init(&layer, op, name);
    return put(b, &layer, input);
}

static uint32_t join(builder *b, comet_op op, const char *name, uint32_t first, uint32_t second)
{
    comet_layer layer;
    uint32_t value = 0;
    comet_layer_init(&layer, op, name);
    layer.n_inputs = 2;
    layer.inputs[0] = first;
    layer.inputs[1] = second;
    if (b->status == COMET_OK)
        b->status = comet_net_add(b->net, &layer, &value);
    return value;
}

typedef struct conv_spec {
    uint32_t out, kernel, stride, pad;
    uint32_t groups; /* 0: 1 */
    bool bias;
    comet_init init;
} conv_spec;

static uint32_t conv(builder *b, const char *name, uint32_t input, conv_spec spec)
{
    comet_layer layer;
    comet_layer_init(&layer, COMET_OP_CONV, name);
    layer.out_channels = spec.out;
    layer.groups = spec.groups > 0 ? spec.groups : 1;
    layer.bias = spec.bias;
    layer.init = spec.init;
    for (int i = 0; i < 2; i++) {
        layer.kernel[i] = spec.kernel;
        layer.stride[i] = spec.stride;
        layer.padding[i] = spec.pad;
    }
    return put(b, &layer, input);
}

static uint32_t max_pool(builder *b, const char *name, uint32_t input, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    comet_layer layer;
    comet_layer_init(&layer, COMET_OP_MAX_POOL, name);
    for (int i = 0; i < 2; i++) {
        layer.kernel[i] = kernel;
        layer.stride[i] = stride;
        layer.padding[i] = pad;
    }
    return put(b, &layer, input);
}

static uint32_t linear(builder *b, const char *name, uint32_t input, uint32_t out, comet_init init)
{
    comet_layer layer;
    comet_layer_init(&layer, COMET_OP_LINEAR, name);
    layer.out_channels = out;
    layer.init = init;
    return put(b, &layer, input);
}

static uint32_t channels_of(const builder *b, uint32_t value)
{
    return comet_net_shape(b->net, value).channels;
}

/* ---- ResNets ---- */

static const conv_spec conv_1x1 = {.kernel = 1, .stride = 1, .init = COMET_INIT_HE_FAN_OUT};
static const conv_spec conv_3x3 = {.kernel = 3, .stride = 1, .pad = 1, .init = COMET_INIT_HE_FAN_OUT};

static conv_spec sized(conv_spec spec, uint32_t out, uint32_t stride)
{
    spec.out = out;
    spec.stride = stride;
    return spec;
}

/* BLOCK.convN and BLOCK.bnN. */
static uint32_t conv_bn(builder *b, const char *block, int n, uint32_t x, conv_spec spec)
{
    x = conv(b, named(b, "%s.conv%d", block, n), x, spec);
    return plain(b, COMET_OP_BATCH_NORM, named(b, "%s.bn%d", block, n), x);
}

/* The block's identity, by a strided 1 x 1 convolution where the shape changes; then sum and relu. */
static uint32_t close_block(builder *b, const char *block, uint32_t branch, uint32_t identity, uint32_t out, uint32_t stride)
{
    if (stride != 1 || channels_of(b, identity) != out) {
        identity = conv(b, named(b, "%s.downsample.0", block), identity, sized(conv_1x1, out, stride));
        identity = plain(b, COMET_OP_BATCH_NORM, named(b, "%s.downsample.1", block), identity);
    }
    const uint32_t sum = join(b, COMET_OP_ADD, named(b, "%s.add", block), branch, identity);
    return plain(b, COMET_OP_RELU, named(b, "%s.relu", block), sum);
}

static uint32_t basic_block(builder *b, const char *block, uint32_t input, uint32_t width, uint32_t stride)
{
    uint32_t x = conv_bn(b, block, 1, input, sized(conv_3x3, width, stride));
    x = plain(b, COMET_OP_RELU, named(b, "%s.relu1", block), x);
    x = conv_bn(b, block, 2, x, sized(conv_3x3, width, 1));
    return close_block(b, block, x, input, width, stride);
}

/* The stride is in the 3 x 3 convolution, as torchvision has it. */
static uint32_t bottleneck(builder *b, const char *block, uint32_t input, uint32_t width, uint32_t stride)
{
    uint32_t x = conv_bn(b, block, 1, input, sized(conv_1x1, width, 1));
    x = plain(b, COMET_OP_RELU, named(b, "%s.relu1", block), x);
    x = conv_bn(b, block, 2, x, sized(conv_3x3, width, stride));
    x = plain(b, COMET_OP_RELU, named(b, "%s.relu2", block), x);
    x = conv_bn(b, block, 3, x, sized(conv_1x1, 4 * width, 1));
    return close_block(b, block, x, input, 4 * width, stride);
}

typedef uint32_t block_builder(builder *b, const char *block, uint32_t input, uint32_t width, uint32_t stride);

/* layer1, layer2 ...: each after the first halves the plane and doubles the width; then the classifier. */
static void residual_stages(builder *b, uint32_t x, block_builder *block, uint32_t width, const uint32_t *depths,
                            uint32_t n_stages)
{
    for (uint32_t stage = 0; stage < n_stages; stage++)
        for (uint32_t i = 0; i < depths[stage]; i++) {
            char name[32];
            snprintf(name, sizeof name, "layer%u.%u", stage + 1, i);
            x = block(b, name, x, width << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    x = plain(b, COMET_OP_GLOBAL_AVG_POOL, "avgpool", x);
    x = plain(b, COMET_OP_FLATTEN, "flatten", x);
    linear(b, "fc", x, b->classes, COMET_INIT_DEFAULT);
}

static void imagenet_resnet(builder *b, block_builder *block, const uint32_t depths[4])
{
    const conv_spec first = {.out = 64, .kernel = 7, .stride = 2, .pad = 3, .init = COMET_INIT_HE_FAN_OUT};
    uint32_t x = conv(b, "conv1", 0, first);
    x = plain(b, COMET_OP_BATCH_NORM, "bn1", x);
    x = plain(b, COMET_OP_RELU, "relu", x);
    x = max_pool(b, "maxpool", x, 3, 2, 1);
    residual_stages(b, x, block, 64, depths, 4);
}

static void build_resnet18(builder *b)
{
    imagenet_resnet(b, basic_block, (const uint32_t[]){2, 2, 2, 2});
}

static void build_resnet50(builder *b)
{
    imagenet_resnet(b, bottleneck, (const uint32_t[]){3, 4, 6, 3});
}

/* He et al. 2016, section 4.2, with projections for the identities that change shape. */
static void cifar_resnet(builder *b, uint32_t depth)
{
    uint32_t x = conv(b, "conv1", 0, sized(conv_3x3, 16, 1));
    x = plain(b, COMET_OP_BATCH_NORM, "bn1", x);
    x = plain(b, COMET_OP_RELU, "relu", x);
    residual_stages(b, x, basic_block, 16, (const uint32_t[]){depth, depth, depth}, 3);
}

static void build_resnet20(builder *b)
{
    cifar_resnet(b, 3);
}

static void build_resnet32(builder *b)
{
    cifar_resnet(b, 5);
}

/* ---- AlexNet and VGG ---- */

static uint32_t dropout(builder *b, const char *name, uint32_t input, float p)
{
    comet_layer layer;
    comet_layer_init(&layer, COMET_OP_DROPOUT, name);
    layer.p = p;
    return put(b, &layer, input);
}

/* features.N and the relu after it. */
static uint32_t feature_conv(builder *b, uint32_t *n, uint32_t x, conv_spec spec)
{
    x = conv(b, named(b, "features.%u", (*n)++), x, spec);
    return plain(b, COMET_OP_RELU, named(b, "features.%u", (*n)++), x);
}

static void build_alexnet(builder *b)
{
    static const conv_spec convs[] = {{64, 11, 4, 2, 1, true, COMET_INIT_DEFAULT},
                                      {192, 5, 1, 2, 1, true, COMET_INIT_DEFAULT},
                                      {384, 3, 1, 1, 1, true, COMET_INIT_DEFAULT},
                                      {256, 3, 1, 1, 1, true, COMET_INIT_DEFAULT},
                                      {256, 3, 1, 1, 1, true, COMET_INIT_DEFAULT}};
    uint32_t x = 0, n = 0;
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
        x = feature_conv(b, &n, x, convs[i]);
        if (i < 2 || i == 4)
            x = max_pool(b, named(b, "features.%u", n++), x, 3, 2, 0);
    }
    x = plain(b, COMET_OP_FLATTEN, "flatten", x);
    x = dropout(b, "classifier.0", x, 0.5f);
    x = linear(b, "classifier.1", x, 4096, COMET_INIT_DEFAULT);
    x = plain(b, COMET_OP_RELU, "classifier.2", x);
    x = dropout(b, "classifier.3", x, 0.5f);
    x = linear(b, "classifier.4", x, 4096, COMET_INIT_DEFAULT);
    x = plain(b, COMET_OP_RELU, "classifier.5", x);
    linear(b, "classifier.6", x, b->classes, COMET_INIT_DEFAULT);
}

static void build_vgg16(builder *b)
{
    static const uint32_t widths[] = {64, 128, 256, 512, 512}, depths[] = {2, 2, 3, 3, 3};
    uint32_t x = 0, n = 0;
    for (size_t stage = 0; stage < 5; stage++) {
        for (uint32_t i = 0; i < depths[stage]; i++)
            x = feature_conv(b, &n, x, (conv_spec){widths[stage], 3, 1, 1, 1, true, COMET_INIT_HE_FAN_OUT});
        x = max_pool(b, named(b, "features.%u", n++), x, 2, 2, 0);
    }
    x = plain(b, COMET_OP_FLATTEN, "flatten", x);
    x = linear(b, "classifier.0", x, 4096, COMET_INIT_NORMAL_001);
    x = plain(b, COMET_OP_RELU, "classifier.1", x);
    x = dropout(b, "classifier.2", x, 0.5f);
    x = linear(b, "classifier.3", x, 4096, COMET_INIT_NORMAL_001);
    x = plain(b, COMET_OP_RELU, "classifier.4", x);
    x = dropout(b, "classifier.5", x, 0.5f);
    linear(b, "classifier.6", x, b->classes, COMET_INIT_NORMAL_001);
}

/* ---- EfficientNet ---- */

/* A stage of inverted residual blocks; the first block has the stride. */
typedef struct mbconv_stage {
    uint32_t expand, kernel, stride, out, depth;
} mbconv_stage;

/* PART.0 and PART.1: convolution without bias that keeps the plane up to its stride, and batch norm. */
static uint32_t norm_conv(builder *b, const char *part, uint32_t x, conv_spec spec)
{
    spec.pad = (spec.kernel - 1) / 2;
    spec.init = COMET_INIT_HE_FAN_OUT;
    x = conv(b, named(b, "%s.0", part), x, spec);
    return plain(b, COMET_OP_BATCH_NORM, named(b, "%s.1", part), x);
}

static uint32_t norm_conv_silu(builder *b, const char *part, uint32_t x, conv_spec spec)
{
    x = norm_conv(b, part, x, spec);
    return plain(b, COMET_OP_SILU, named(b, "%s.2", part), x);
}

static uint32_t squeeze_excitation(builder *b, const char *part, uint32_t input, uint32_t squeezed)
{
    conv_spec spec = {.kernel = 1, .stride = 1, .bias = true, .init = COMET_INIT_HE_FAN_OUT};
    uint32_t x = plain(b, COMET_OP_GLOBAL_AVG_POOL, named(b, "%s.avgpool", part), input);
    x = conv(b, named(b, "%s.fc1", part), x, sized(spec, squeezed, 1));
    x = plain(b, COMET_OP_SILU, named(b, "%s.activation", part), x);
    x = conv(b, named(b, "%s.fc2", part), x, sized(spec, channels_of(b, input), 1));
    x = plain(b, COMET_OP_SIGMOID, named(b, "%s.scale_activation", part), x);
    return join(b, COMET_OP_MULTIPLY, named(b, "%s.multiply", part), input, x);
}

/* The identity of an inverted residual block is added to the branch, which training drops for some images. */
static uint32_t add_identity(builder *b, const char *block, uint32_t branch, uint32_t identity, float drop)
{
    comet_layer layer;
    comet_layer_init(&layer, COMET_OP_DROPOUT, named(b, "%s.stochastic_depth", block));
    layer.p = drop;
    layer.per_sample = true;
    branch = put(b, &layer, branch);
    return join(b, COMET_OP_ADD, named(b, "%s.add", block), branch, identity);
}

static uint32_t mbconv(builder *b, const char *block, uint32_t input, const mbconv_stage *stage, uint32_t stride, float drop)
{
    const uint32_t channels = channels_of(b, input), wide = channels * stage->expand;
    uint32_t x = input, n = 0;
    char part[48];
    if (wide != channels) {
        snprintf(part, sizeof part, "%s.block.%u", block, n++);
        x = norm_conv_silu(b, part, x, (conv_spec){.out = wide, .kernel = 1, .stride = 1});
    }
    snprintf(part, sizeof part, "%s.block.%u", block, n++);
    x = norm_conv_silu(b, part, x, (conv_spec){.out = wide, .kernel = stage->kernel, .stride = stride, .groups = wide});
    snprintf(part, sizeof part, "%s.block.%u", block, n++);
    x = squeeze_excitation(b, part, x, channels / 4);
    snprintf(part, sizeof part, "%s.block.%u", block, n++);
    x = norm_conv(b, part, x, (conv_spec){.out = stage->out, .kernel = 1, .stride = 1});
    return stride == 1 && channels == stage->out ? add_identity(b, block, x, input, drop) : x;
}

static void build_efficientnet_b0(builder *b)
{
    static const mbconv_stage stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                          {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
    const uint32_t n_stages = sizeof stages / sizeof *stages, n_blocks = 16;
    uint32_t x = norm_conv_silu(b, "features.0", 0, (conv_spec){.out = 32, .kernel = 3, .stride = 2});
    for (uint32_t s = 0, done = 0; s < n_stages; s++)
        for (uint32_t i = 0; i < stages[s].depth; i++, done++) {
            char block[32];
            snprintf(block, sizeof block, "features.%u.%u", s + 1, i);
            x = mbconv(b, block, x, &stages[s], i == 0 ? stages[s].stride : 1, (float)(0.2 * done / n_blocks));
        }
    x = norm_conv_silu(b, "features.8", x, (conv_spec){.out = 1280, .kernel = 1, .stride = 1});
    x = plain(b, COMET_OP_GLOBAL_AVG_POOL, "avgpool", x);
    x = plain(b, COMET_OP_FLATTEN, "flatten", x);
    x = dropout(b, "classifier.0", x, 0.2f);
    linear(b, "classifier.1", x, b->classes, COMET_INIT_UNIFORM_FAN_OUT);
}

/* ---- cnn28 ---- */

static void build_cnn28(builder *b)
{
    uint32_t x = 0;
    for (int i = 1; i <= 4; i++) {
        x = conv(b, named(b, "conv%d", i), x, sized(conv_3x3, i <= 2 ? 32 : 64, 1));
        x = plain(b, COMET_OP_BATCH_NORM, named(b, "bn%d", i), x);
        x = plain(b, COMET_OP_RELU, named(b, "relu%d", i), x);
        if (i % 2 == 0)
            x = max_pool(b, named(b, "pool%d", i / 2), x, 2, 2, 0);
    }
    x = plain(b, COMET_OP_FLATTEN, "flatten", x);
    linear(b, "fc", x, b->classes, COMET_INIT_DEFAULT);
}

/* ---- the list ---- */

typedef struct zoo_entry {
    const char *name, *summary;
    uint32_t channels, size, classes;
    uint32_t min_size, max_size; /* sides that the net takes; 0: any that fits */
    void (*build)(builder *b);
} zoo_entry;

/* torchvision's AlexNet and VGG pool what the convolutions leave to 6 x 6 and 7 x 7. At the sizes given here it is that size
 * already; the pooling is left out, and other sizes are refused. */
static const zoo_entry entries[] = {
    {"alexnet", "AlexNet of 2014, one column", 3, 224, 1000, 223, 254, build_alexnet},
    {"vgg16", "VGG of 16 layers, without batch norm", 3, 224, 1000, 224, 255, build_vgg16},
    {"resnet18", "ResNet of 18 layers, basic blocks", 3, 224, 1000, 0, 0, build_resnet18},
    {"resnet50", "ResNet of 50 layers, bottleneck blocks", 3, 224, 1000, 0, 0, build_resnet50},
    {"efficientnet_b0", "EfficientNet B0, with squeeze-excitation", 3, 224, 1000, 0, 0, build_efficientnet_b0},
    {"resnet20", "ResNet of 20 layers for CIFAR-10", 3, 32, 10, 0, 0, build_resnet20},
    {"resnet32", "ResNet of 32 layers for CIFAR-10", 3, 32, 10, 0, 0, build_resnet32},
    {"cnn28", "four convolutions, for small grey images", 1, 28, 10, 4, 0, build_cnn28},
};

enum { N_ENTRIES = sizeof entries / sizeof *entries };

const char *comet_zoo_name(size_t index)
{
    return index < N_ENTRIES ? entries[index].name : NULL;
}

const char *comet_zoo_summary(size_t index)
{
    return index < N_ENTRIES ? entries[index].summary : NULL;
}

static const zoo_entry *find_entry(const char *name)
{
    for (size_t i = 0; i < N_ENTRIES; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

static comet_status unknown_net(const char *name)
{
    char list[160] = "";
    nearest_word nearest = nearest_to(name, strlen(name));
    for (size_t i = 0, n = 0; i < N_ENTRIES; i++) {
        nearest_offer(&nearest, entries[i].name);
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", entries[i].name);
    }
    const char *best = nearest_best(&nearest);
    return comet_fail(COMET_ERROR_ARGUMENT, "there is no net '%.40s'%s%s%s; there are %s", name, best ? " (did you mean " : "",
                      best ? best : "", best ? "?)" : "", list);
}

static comet_status check_size(const zoo_entry *entry, uint32_t size)
{
    if (size >= entry->min_size && (entry->max_size == 0 || size <= entry->max_size))
        return COMET_OK;
    if (entry->max_size == 0)
        return comet_fail(COMET_ERROR_ARGUMENT, "%s takes images of %u pixels and more, not %u", entry->name, entry->min_size,
                          size);
    return comet_fail(COMET_ERROR_ARGUMENT, "%s takes images of %u to %u pixels, not %u: its classifier has a fixed size",
                      entry->name, entry->min_size, entry->max_size, size);
}

comet_status comet_net_zoo(comet_net **net, const char *name, uint32_t channels, uint32_t size, uint32_t classes)
{
    if (!net || !name)
        return comet_fail(COMET_ERROR_ARGUMENT, "comet_net_zoo needs a place for the net and a name");
    const zoo_entry *entry = find_entry(name);
    if (!entry)
        return unknown_net(name);
    const uint32_t side = size > 0 ? size : entry->size;
    builder b = {.classes = classes > 0 ? classes : entry->classes};
    b.status = check_size(entry, side);
    if (b.status == COMET_OK)
        b.status = comet_net_create(&b.net, name, channels > 0 ? channels : entry->channels, side, side);
    if (b.status != COMET_OK)
        return b.status;
    entry->build(&b);
    if (b.status == COMET_OK)
        *net = b.net;
    else
        comet_net_destroy(b.net);
    return b.status;
}
