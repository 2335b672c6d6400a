/* Kernels around winograd.h: which convolutions it computes, and how their operands lie. */
#include "train/backend/dnnl_kernel.h"
#include "train/backend/parallel.h"

static bool is_suitable(const conv_spec *s)
{
    for (int i = 0; i < 2; i++)
        if (s->kernel[i] != 3 || s->stride[i] != 1 || s->dilation[i] != 1 || s->padding[i] > 2)
            return false;
    return s->groups == 1;
}

static winograd_shape shape_of(const conv_spec *s, kernel_pass pass)
{
    winograd_shape shape = {.type = s->type, .batch = s->batch, .bias = s->bias};
    for (int i = 0; i < 3; i++) {
        shape.in[i] = s->in[i];
        shape.out[i] = s->out[i];
    }
    for (int i = 0; i < 2; i++)
        shape.padding[i] = s->padding[i];
    shape.relu = pass == PASS_FORWARD && s->relu;
    shape.adds = pass == PASS_FORWARD && s->adds;
    return shape;
}

#define CACHED_SOURCES ((uint64_t)16 << 20) /* bytes of transformed sources that all output channels read again */

/* Direct convolution in bf16 is twice as fast as in f32. On one thread of Zen 5, with 64 to 512 channels, Winograd is 0.84 to
 * 1.6 times as fast; half as fast where the sources of all channels leave the caches (512 at 14 x 14). What AMX makes of bf16
 * is out of reach of products in f32. */
static bool pays(const winograd_plan *p)
{
    const unsigned amx = (unsigned)dnnl_cpu_isa_avx512_core_amx;
    const bool has_amx = ((unsigned)dnnl_get_effective_cpu_isa() & amx) == amx;
    const bool cached = !p->channels_outside || p->shared_floats * sizeof(float) <= CACHED_SOURCES;
    return winograd_pays(&p->shape) && (p->shape.type == COMET_DTYPE_F32 || (cached && !has_amx));
}

static bool plan_of(const conv_spec *s, kernel_pass pass, winograd_plan *plan)
{
    static const winograd_pass passes[] = {
        [PASS_FORWARD] = WINOGRAD_FORWARD,
        [PASS_BACKWARD_DATA] = WINOGRAD_BACKWARD_DATA,
        [PASS_BACKWARD_WEIGHTS] = WINOGRAD_BACKWARD_WEIGHTS,
    };
    const winograd_shape shape = shape_of(s, pass);
    const conv_way way = s->ways.of[pass];
    const uint64_t most = pass == PASS_BACKWARD_WEIGHTS ? s->weights_scratch_bytes : s->data_scratch_bytes;
    return is_suitable(s) && way != CONV_DIRECT && winograd_make(&shape, passes[pass], parallel_threads(), most, plan) &&
           (way == CONV_WINOGRAD || pays(plan));
}

/* Layouts of the tensors that `s` reads and writes, in blocks as the loops need them; weights are f32. */
typedef struct conv_layouts {
    const layout *src, *dst, *weights, *bias; /* bias: NULL where there is none */
} conv_layouts;

static comet_status find_layouts(backend *b, const conv_spec *s, conv_layouts *l)
{
    const bool wide = winograd_block() == 16;
    const dnnl_format_tag_t data = wide ? dnnl_nChw16c : dnnl_nChw8c, blocks = wide ? dnnl_OIhw16i16o : dnnl_OIhw8i8o;
    const dnnl_dim_t n = (dnnl_dim_t)s->batch, in = (dnnl_dim_t)s->in[0], out = (dnnl_dim_t)s->out[0];
    const dnnl_dims_t src = {n, in, (dnnl_dim_t)s->in[1], (dnnl_dim_t)s->in[2]};
    const dnnl_dims_t dst = {n, out, (dnnl_dim_t)s->out[1], (dnnl_dim_t)s->out[2]};
    const dnnl_dims_t weights = {out, in, s->kernel[0], s->kernel[1]}, bias = {out};
    l->bias = NULL;
    TRY(layout_by_tag(b, 4, src, dnnl_type_of(s->type), data, &l->src));
    TRY(layout_by_tag(b, 4, dst, dnnl_type_of(s->type), data, &l->dst));
    TRY(layout_by_tag(b, 4, weights, dnnl_f32, blocks, &l->weights));
    return s->bias ? layout_by_tag(b, 1, bias, dnnl_f32, dnnl_a, &l->bias) : COMET_OK;
}

comet_status winograd_kernel(backend *b, const conv_spec *spec, kernel_pass pass, const layout *src, const layout *dst,
                             kernel **k)
{
    winograd_plan plan;
    conv_layouts l;
    *k = NULL;
    if (!plan_of(spec, pass, &plan))
        return COMET_OK;
    TRY(find_layouts(b, spec, &l));
    if (pass != PASS_FORWARD && (src != l.src || dst != l.dst))
        return COMET_OK;
    const operand_layout forward[] = {{ARG_SRC, l.src}, {ARG_WEIGHTS, l.weights}, {ARG_BIAS, l.bias}, {ARG_DST, l.dst}};
    const operand_layout data[] = {{ARG_DIFF_SRC, l.src}, {ARG_WEIGHTS, l.weights}, {ARG_DIFF_DST, l.dst}};
    const operand_layout weights[] = {
        {ARG_SRC, l.src}, {ARG_DIFF_WEIGHTS, l.weights}, {ARG_DIFF_BIAS, l.bias}, {ARG_DIFF_DST, l.dst}};
    if (pass == PASS_FORWARD)
        return kernel_make_own(b, &plan, forward, 4, k);
    return pass == PASS_BACKWARD_DATA ? kernel_make_own(b, &plan, data, 3, k) : kernel_make_own(b, &plan, weights, 4, k);
}
