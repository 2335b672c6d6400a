/* Builds with and without the training engine; see training.h. The build without it defines COMET_TRAIN_MISSING for this file
 * alone.
 */
#include "training.h"

#include <stddef.h>

#include "verbs.h"

#ifdef COMET_HAVE_TRAIN

#include "comet/train.h"

const char *training_missing(void)
{
    return NULL;
}

const char *training_dnnl_version(void)
{
    return comet_dnnl_version();
}

const char *training_dnnl_version_built(void)
{
    return comet_dnnl_version_built();
}

cli_exit training_check(void)
{
    return comet_dnnl_check() == COMET_OK ? CLI_OK : fail(CLI_FAILED, "%s", comet_last_error());
}

#else

const char *training_missing(void)
{
    return COMET_TRAIN_MISSING;
}

const char *training_dnnl_version(void)
{
    return NULL;
}

const char *training_dnnl_version_built(void)
{
    return NULL;
}

cli_exit training_check(void)
{
    return CLI_OK;
}

#define ABSENT(verb_name)                                                   \
    {                                                                       \
        .name = verb_name, .summary = "(not in this build)", .absent = true \
    }

/* They stand for the verbs of cli/train, which is not compiled. */
const verb verb_train = ABSENT("train"), verb_eval = ABSENT("eval"), verb_predict = ABSENT("predict"),
           verb_models = ABSENT("models"), verb_export = ABSENT("export"), verb_import = ABSENT("import"),
           verb_plan = ABSENT("plan"), verb_bench_train = ABSENT("bench train"), verb_demo_train = ABSENT("demo train");

#endif

cli_exit training_refuse(void)
{
    const char *why = training_missing();
    return fail(CLI_FAILED, "this build has no training: %s; 'comet --help' lists what it has", why ? why : "");
}
