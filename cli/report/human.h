/* Figures for people: units, few digits, a dash for what is not known. */
#ifndef COMET_CLI_HUMAN_H
#define COMET_CLI_HUMAN_H

typedef enum quantity {
    PLAIN,   /* 0.1234 */
    COUNT,   /* 12,345 */
    BYTES,   /* 634 MiB */
    SHARE,   /* a share of 1, shown as 88.5 % */
    TIMES,   /* 8.6 x */
    SECONDS, /* 12.3 ms, 4 min 5 s */
    SPEED,   /* 1,141 */
} quantity;

enum { HUMAN_BYTES = 48 };

/* Returns `text`. NaN becomes a dash. */
char *human(quantity what, double value, char text[HUMAN_BYTES]);

#endif
