/* The whole page: one HTML file that needs nothing else. */
#ifndef COMET_CLI_REPORT_PAGE_H
#define COMET_CLI_REPORT_PAGE_H

#include "report/page.h"
#include "report/run.h"

/* `title` from outside, NULL for the names of the nets; where `is_live`, the page reloads itself every `seconds` seconds. */
void report_page(run *items, size_t n, const char *title, bool is_live, unsigned seconds, page *p);

#endif
