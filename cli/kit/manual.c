/* Manual pages; see manual.h. */
#include "kit/manual.h"

#include <stdio.h>
#include <string.h>

#include "comet/codec.h"

/* Text as roff shows it: no character of it is a command. */
static void roff_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const bool begins = i == 0 || text[i - 1] == '\n';
        switch (text[i]) {
        case '\\': fputs("\\e", stdout); break;
        case '-': fputs("\\-", stdout); break;
        case '\'': fputs("\\(aq", stdout); break;
        case '`': fputs("\\(ga", stdout); break;
        case '^': fputs("\\(ha", stdout); break;
        case '~': fputs("\\(ti", stdout); break;
        case '.': fputs(begins ? "\\&." : ".", stdout); break;
        default: putchar(text[i]); break;
        }
    }
}

static void roff(const char *text)
{
    roff_text(text, strlen(text));
}

/* Lines as they are. */
static void roff_block(const char *text)
{
    puts(".PP\n.nf");
    roff(text);
    if (text[0] != '\0' && text[strlen(text) - 1] != '\n')
        putchar('\n');
    puts(".fi");
}

/* "bench codec" in one word. */
static void print_joined(const char *name)
{
    for (; *name != '\0'; name++)
        fputs(*name == ' ' || *name == '-' ? "\\-" : (const char[]){*name, '\0'}, stdout);
}

static void print_title(const char *name, const char *summary)
{
    fputs(".TH COMET", stdout);
    for (const char *at = name; *at != '\0'; at++) {
        if (at == name)
            fputs("\\-", stdout);
        putchar(*at == ' ' ? '-' : *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    }
    printf(" 1 \"\" \"comet %s\" \"User Commands\"\n.SH NAME\ncomet", comet_version());
    if (name[0] != '\0') {
        fputs("\\-", stdout);
        print_joined(name);
    }
    fputs(" \\- ", stdout);
    roff(summary);
    putchar('\n');
}

static void print_option(const option *o)
{
    puts(".TP");
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", stdout);
    roff(o->name);
    fputs("\\fR", stdout);
    if (o->value) {
        const bool takes = option_takes_value(o);
        fputs(takes ? " \\fI" : "[\\fI", stdout);
        roff(o->value);
        fputs(takes ? "\\fR" : "\\fR]", stdout);
    }
    putchar('\n');
    roff(o->help);
    putchar('\n');
}

static void print_options(const verb *v)
{
    static const option help = {.letter = 'h', .name = "help", .help = "print a page of help"};
    size_t n_common = 0;
    const option *common = options_common(v->n_options, &n_common);
    puts(".SH OPTIONS");
    for (size_t i = 0; i < v->n_options; i++)
        print_option(&v->options[i]);
    for (size_t i = 0; i < n_common; i++)
        print_option(&common[i]);
    print_option(&help);
}

static void print_end(void)
{
    puts(".SH EXIT STATUS\n0 ok, 1 failed, 2 usage, 3 bad input, 4 bound violated, 5 out of memory, 130 or 143 stopped by a "
         "signal.");
}

void manual_verb(const verb *v)
{
    print_title(v->name, v->summary);
    fputs(".SH SYNOPSIS\n.B comet ", stdout);
    roff(v->name);
    putchar('\n');
    roff(v->usage);
    puts("\n.SH DESCRIPTION");
    roff(v->summary);
    puts(".");
    if (v->details[0] != '\0')
        roff_block(v->details);
    for (size_t i = 0; v->subjects && v->subjects[i]; i++) {
        fputs(".TP\n.B ", stdout);
        roff(verb_word(v->subjects[i]));
        putchar('\n');
        roff(v->subjects[i]->summary);
        putchar('\n');
    }
    const verb *first = v->subjects && v->first_is_default ? v->subjects[0] : v;
    if (first && first->n_options > 0)
        print_options(first);
    print_end();
    puts(".SH EXAMPLES");
    roff_block(v->examples);
    puts(".SH SEE ALSO\n.BR comet (1)");
}

void manual_overview(const verb *const *verbs)
{
    print_title("", "train convolutional networks with compressed activations, and compress tensors");
    puts(".SH SYNOPSIS\n.B comet\n.I VERB\n[arguments]\n.SH DESCRIPTION\nEach verb has a page of its own.");
    for (; *verbs; verbs++) {
        if ((*verbs)->absent)
            continue;
        fputs(".TP\n\\fBcomet\\-", stdout);
        print_joined((*verbs)->name);
        puts("\\fR(1)");
        roff((*verbs)->summary);
        putchar('\n');
    }
    puts(".PP\n\\fBcomet help\\fR \\fITOPIC\\fR prints a document; \\fBcomet help\\fR lists the topics.");
    print_end();
    puts(".SH ENVIRONMENT\n.TP\n.B COMET_MAX_ISA\nlimits the instructions that are used: reference, neon, avx2 or avx512.");
}

void manual_list(const verb *const *verbs)
{
    puts("comet");
    for (; *verbs; verbs++) {
        if (!(*verbs)->absent)
            puts((*verbs)->name);
        for (size_t i = 0; (*verbs)->subjects && (*verbs)->subjects[i]; i++)
            if (!(*verbs)->subjects[i]->absent)
                puts((*verbs)->subjects[i]->name);
    }
}
