/* A machine from whatever describes it; see machine.h. */
#include <stdlib.h>
#include <string.h>

#include "kit/file_io.h"
#include "place/machine.h"
#include "place/machine_hwloc.h"

enum { MACHINE_FILE_BYTES = 1 << 20 };

cli_exit machine_open(const char *source, machine *m)
{
    blob text;
    *m = (machine){.vertices = NULL};
    if (machine_is_hwloc(source))
        return machine_read_hwloc(source, m);
    cli_exit code = file_read_small(source, MACHINE_FILE_BYTES, &text);
    if (code != CLI_OK)
        return code;
    char *copy = malloc(text.bytes + 1);
    if (!copy) {
        code = fail_memory(text.bytes + 1);
    } else {
        if (text.bytes > 0)
            memcpy(copy, text.data, text.bytes);
        copy[text.bytes] = '\0';
        code = machine_read(source, copy, m);
    }
    free(copy);
    blob_free(&text);
    return code;
}
