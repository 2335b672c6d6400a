/* The whole page; see report_page.h. report.css and report.js are turned into report_assets.h by cmake/embed.cmake. */
#include "report/report_page.h"

#include <stdio.h>
#include <string.h>

#include "comet/base.h"
#include "report/sections.h"
#include "report_assets.h"

static void put_title(const runs *all, const char *title, page *p)
{
    if (title) {
        page_escape(p, title);
        return;
    }
    const char *last = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const char *net = run_text(all->items[i].start, "net");
        if (!net || (last && strcmp(net, last) == 0))
            continue;
        page_put(p, last ? ", " : "Training ");
        page_escape(p, net);
        last = net;
    }
    if (!last)
        page_put(p, "Training run");
    if (all->n > 1)
        page_format(p, ", %zu runs", all->n);
}

/* Nothing is loaded from anywhere, whatever a log holds. */
static void put_preamble(page *p, bool is_live, unsigned seconds)
{
    page_put(p,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
             "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n");
    page_format(p, "<meta name=\"generator\" content=\"comet report %s\">\n", comet_version());
    if (is_live)
        page_format(p, "<noscript><meta http-equiv=\"refresh\" content=\"%u\"></noscript>\n", seconds);
    page_put(p, "<title>");
}

void report_page(run *items, size_t n, const char *title, bool is_live, unsigned seconds, page *p)
{
    const runs all = runs_of(items, n);
    page heading = {0};
    put_title(&all, title, &heading);
    put_preamble(p, is_live, seconds);
    if (heading.text)
        page_put(p, heading.text);
    page_put(p, "</title>\n<style>\n");
    page_bytes(p, report_css, sizeof report_css);
    page_format(p, "</style>\n</head>\n<body%s", is_live ? " data-live=\"" : ">\n<main>\n");
    if (is_live)
        page_format(p, "%u\">\n<main>\n<p class=\"live\">This page follows the run and reloads itself every %u seconds.</p>\n",
                    seconds, seconds);
    draw_head(&all, heading.text, p);
    draw_curves(&all, p);
    draw_memory(&all, p);
    draw_within_step(&all, p);
    draw_layers(&all, p);
    draw_time(&all, p);
    draw_messages(&all, p);
    page_format(p, "<footer>Written by comet report %s.</footer>\n</main>\n<script>\n", comet_version());
    page_bytes(p, report_js, sizeof report_js);
    page_put(p, "</script>\n</body>\n</html>\n");
    p->failed = p->failed || heading.failed;
    page_free(&heading);
}
