/* comet doctor --gpu: devices, whether the codec gives the CPU's bytes on each, and how fast it is. */
#ifndef COMET_CLI_GPU_REPORT_H
#define COMET_CLI_GPU_REPORT_H

#include <stdbool.h>

#include "kit/say.h"

/* Tests every device and prints a report. Fails if a device that can be used gives other bytes than the CPU; having none is no
 * failure. */
cli_exit gpu_report_run(bool as_json);

#endif
