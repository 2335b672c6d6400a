/* Bounds as text; see bounds_text.h. */
#include "train/files/bounds_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "train/assess/state.h"

enum { NUMBER_BYTES = 26 };

comet_status bounds_print(const comet_model *model, char **text)
{
    const size_t n = model_state_n(model);
    *text = NULL;
    if (n == 0)
        return COMET_OK;
    double *numbers = malloc(n * sizeof *numbers);
    char *made = malloc(n * NUMBER_BYTES);
    if (!numbers || !made) {
        free(numbers);
        free(made);
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu numbers of the bounds", n);
    }
    model_state_export(model, numbers);
    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(made + at, NUMBER_BYTES, "%s%.17g", i > 0 ? " " : "", numbers[i]);
    free(numbers);
    *text = made;
    return COMET_OK;
}

comet_status bounds_parse(const char *path, const char *text, double **numbers, size_t *n)
{
    *numbers = NULL;
    *n = 0;
    if (!text)
        return COMET_OK;
    size_t most = 1;
    for (const char *at = text; *at != '\0'; at++)
        most += *at == ' ';
    double *read = malloc(most * sizeof *read);
    if (!read)
        return comet_fail(COMET_ERROR_MEMORY, "out of memory: could not allocate %zu numbers of the bounds", most);
    const char *at = text;
    for (size_t i = 0; i < most; i++) {
        char *end = NULL;
        const bool begins = (*at >= '0' && *at <= '9') || *at == '-';
        read[i] = begins ? strtod(at, &end) : 0;
        if (!begins || end == at || *end != (i + 1 < most ? ' ' : '\0') || !isfinite(read[i])) {
            free(read);
            return comet_fail(COMET_ERROR_CORRUPT, "%s: number %zu of its bounds cannot be read", path, i + 1);
        }
        at = end + 1;
    }
    *numbers = read;
    *n = most;
    return COMET_OK;
}
