/* See stop_signal.h. */
#include "train/stop_signal.h"

#include <stddef.h>

#include "comet/dist.h"

enum { SIGNAL_EXIT = 128 };

volatile sig_atomic_t stop_signal_flag;

static void on_signal(int number)
{
    stop_signal_flag = number;
    comet_dist_hold(); /* with other ranks: a launcher may else kill all of them before the step is finished */
}

void stop_signal_catch(void)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    const struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_RESETHAND};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaction(numbers[i], &stop, NULL);
    }
}

cli_exit stop_signal_exit(void)
{
    return (cli_exit)(SIGNAL_EXIT + (stop_signal_flag ? stop_signal_flag : SIGTERM));
}
