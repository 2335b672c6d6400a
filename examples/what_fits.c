/*
 * Asks the planner what fits into a given memory: the largest batch for each way to compress, then what it would choose.
 *
 *   what_fits [NET [MEBIBYTES]]    by default resnet18, for images of 224 x 224, in 1024 MiB
 *
 * Exits 0 if something fits.
 */
#include <comet/budget.h>

#include <stdio.h>
#include <stdlib.h>

static const comet_compress_mode MODES[] = {COMET_COMPRESS_OFF, COMET_COMPRESS_FAST, COMET_COMPRESS_DENSE};

/* The planner runs a few steps with a batch of 4 for each mode, so that it knows how well this net compresses. */
static comet_status print_largest(comet_budget *budget, uint64_t memory)
{
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        uint32_t batch = 0; /* stays 0 where nothing fits */
        const comet_status status = comet_budget_largest_batch(budget, MODES[i], memory, &batch);
        if (status != COMET_OK)
            return status;
        printf("%-5s largest batch %u\n", comet_compress_mode_name(MODES[i]), batch);
    }
    return COMET_OK;
}

/* Leaves batch, mode and planned ratio in *model: comet_model_create can take it as it is. */
static comet_status choose(comet_budget *budget, uint64_t memory, comet_model_params *model)
{
    comet_budget_request request;
    comet_budget_choice choice;
    comet_budget_request_init(&request);
    comet_budget_choice_init(&choice);
    request.memory = memory;
    request.choose_batch = true;
    const comet_status status = comet_budget_settle(budget, &request, model, &choice);
    if (status != COMET_OK)
        return status; /* COMET_ERROR_MEMORY: the sentence says what would fit */
    printf("chosen: batch %u, compression %s\n", choice.batch, comet_compress_mode_name(choice.mode));
    printf("expected peak: %.0f MiB of %.0f\n", (double)choice.peak / 1048576.0, (double)memory / 1048576.0);
    return COMET_OK;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "resnet18";
    const uint64_t memory = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1024) << 20;
    comet_net *net = NULL;
    comet_budget *budget = NULL;
    comet_budget_params params;
    if (memory == 0) {
        fprintf(stderr, "usage: what_fits [NET [MEBIBYTES]]\n");
        return EXIT_FAILURE;
    }

    comet_status status = comet_net_zoo(&net, name, 0, 0, 0); /* 0: the net's own channels, size and classes */
    comet_budget_params_init(&params);
    params.net = net;
    params.model.compression.mode = COMET_COMPRESS_FAST; /* the first choice; the planner goes on to denser ones */
    comet_model_params model = params.model;
    if (status == COMET_OK)
        status = comet_budget_create(&budget, &params);
    if (status == COMET_OK)
        status = print_largest(budget, memory);
    if (status == COMET_OK)
        status = choose(budget, memory, &model);
    if (status != COMET_OK)
        fprintf(stderr, "what_fits: %s\n", comet_last_error());
    comet_budget_destroy(budget);
    comet_net_destroy(net);
    return status == COMET_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
