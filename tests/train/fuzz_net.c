/* Arbitrary bytes as the text of a net. What is accepted is written and read again, and must come out the same. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "comet/net.h"

static void check(bool condition)
{
    if (!condition)
        abort();
}

static void check_shapes(const comet_net *net)
{
    for (uint32_t v = 0; v < comet_net_n_values(net); v++) {
        const comet_shape s = comet_net_shape(net, v);
        const comet_layer *layer = comet_net_layer(net, v);
        check(s.channels > 0 && s.height > 0 && s.width > 0);
        check((uint64_t)s.channels * s.height <= INT32_MAX && (uint64_t)s.channels * s.height * s.width <= INT32_MAX);
        check(!s.flat || (s.height == 1 && s.width == 1));
        for (uint32_t i = 0; i < layer->n_inputs; i++)
            check(layer->inputs[i] < v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    comet_net *net = NULL, *back = NULL;
    char *text = NULL, *again = NULL;
    const comet_status status = comet_net_read(&net, "fuzz", (const char *)data, size);
    if (status != COMET_OK) {
        check(status == COMET_ERROR_ARGUMENT && !net && strncmp(comet_last_error(), "fuzz:", 5) == 0);
        return 0;
    }
    check_shapes(net);
    check(comet_net_write(net, &text) == COMET_OK);
    check(comet_net_read(&back, "again", text, strlen(text)) == COMET_OK);
    check(comet_net_write(back, &again) == COMET_OK);
    check(strcmp(text, again) == 0 && comet_net_n_values(net) == comet_net_n_values(back));
    comet_text_free(text);
    comet_text_free(again);
    comet_net_destroy(net);
    comet_net_destroy(back);
    return 0;
}
