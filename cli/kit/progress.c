/* Progress bar; see progress.h. */
#include "kit/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "comet/base.h"
#include "kit/text.h"

enum { BAR_CELLS = 30, MOST_COLUMNS = 80, FILE_COLUMNS = 200 };
static const double first_after_seconds = 1.0;
static const double redraw_seconds = 0.1;
/* Where stderr is a file, lines come at least this far apart, later a tenth of the elapsed time, so that the file stays short.
 */
static const double line_seconds = 10, line_share = 0.1;

static struct {
    int depth; /* a bar inside a bar is not drawn */
    bool running, visible;
    const char *label;
    uint64_t total;
    double started, drawn;
} bar;

static struct {
    double started, last; /* 0: none yet */
} lines;

static bool disabled;

void progress_disable(void)
{
    disabled = true;
}

void progress_begin(const char *label, uint64_t total)
{
    if (bar.depth++ > 0)
        return;
    bar.running = !disabled && isatty(STDERR_FILENO) != 0;
    bar.label = label;
    bar.total = total;
    bar.started = comet_seconds();
    bar.drawn = 0;
}

/* The last column stays empty: some terminals wrap as soon as it is written. */
size_t progress_width(void)
{
    struct winsize size = {.ws_col = 0};
    if (!isatty(STDERR_FILENO))
        return FILE_COLUMNS;
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return (known && size.ws_col < MOST_COLUMNS ? size.ws_col : MOST_COLUMNS) - 1u;
}

/* Cells of the bar, beside its label and the share. */
static int cells_beside(const char *label)
{
    const int left = (int)progress_width() - (int)strlen(label) - 9;
    return left < 0 ? 0 : left < BAR_CELLS ? left : BAR_CELLS;
}

static void draw(uint64_t done)
{
    char cells[BAR_CELLS + 1];
    const int n = cells_beside(bar.label);
    const double share = bar.total > 0 && done <= bar.total ? (double)done / (double)bar.total : 0;
    for (int i = 0; i < n; i++)
        cells[i] = i < (int)(share * n) ? '#' : '.';
    cells[n] = '\0';
    if (bar.total > 0)
        fprintf(stderr, "\r%s [%s] %3.0f %%", bar.label, cells, 100 * share);
    else
        fprintf(stderr, "\r%s %" PRIu64, bar.label, done);
    fflush(stderr);
    bar.visible = true;
}

void progress_update(uint64_t done)
{
    if (!bar.running || bar.depth > 1)
        return;
    const double now = comet_seconds();
    if (now - bar.started < first_after_seconds || now - bar.drawn < redraw_seconds)
        return;
    bar.drawn = now;
    draw(done);
}

static void write_line(const char *text, double now)
{
    if (lines.started == 0)
        lines.started = lines.last = now;
    if (now - lines.last < fmax(line_seconds, line_share * (now - lines.started)))
        return;
    lines.last = now;
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
}

void progress_text(const char *format, ...)
{
    char plain[256], text[512];
    va_list arguments;
    if (disabled)
        return;
    va_start(arguments, format);
    vsnprintf(plain, sizeof plain, format, arguments);
    va_end(arguments);
    text_printable(plain, text, sizeof text);
    const double now = comet_seconds();
    if (!isatty(STDERR_FILENO)) {
        write_line(text, now);
        return;
    }
    if (now - bar.drawn < redraw_seconds)
        return;
    fprintf(stderr, "\r%.*s\033[K", (int)progress_width(), text);
    fflush(stderr);
    bar.drawn = now;
    bar.visible = true;
}

void progress_hide(void)
{
    if (!bar.visible)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar.visible = false;
    bar.drawn = 0;
}

void progress_end(void)
{
    if (--bar.depth > 0)
        return;
    progress_hide();
    bar.running = false;
}
