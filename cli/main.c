/* comet: finds the verb, hands it the rest of the command line, and checks that stdout was written. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/nearest.h"
#include "comet/codec.h"
#include "kit/command_line.h"
#include "kit/manual.h"
#include "kit/topics.h"
#include "training.h"
#include "verbs.h"

static const verb *const verbs[] = {&verb_train,    &verb_eval,     &verb_predict,    &verb_models, &verb_export, &verb_import,
                                    &verb_plan,     &verb_compress, &verb_decompress, &verb_info,   &verb_verify, &verb_bench,
                                    &verb_generate, &verb_doctor,   &verb_report,     &verb_demo,   NULL};
enum { N_VERBS = N_ITEMS(verbs) - 1 };

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

static cli_exit unknown_verb(const char *name, bool or_topic)
{
    nearest_word nearest = nearest_to(name, strlen(name));
    for (size_t i = 0; i < N_VERBS; i++)
        nearest_offer(&nearest, verbs[i]->name);
    nearest_offer(&nearest, "help");
    if (or_topic)
        topics_offer(&nearest);
    const char *best = nearest_best(&nearest);
    if (best)
        return fail(CLI_USAGE, "unknown verb '%s'; did you mean %s?", name, best);
    return fail(CLI_USAGE, "unknown verb '%s'", name);
}

static void print_absent(FILE *out)
{
    fputs("\nnot in this build:", out);
    for (size_t i = 0; i < N_VERBS; i++)
        if (verbs[i]->absent)
            fprintf(out, " %s,", verbs[i]->name);
    fprintf(out, " bench train, demo train\n  it has no training: %s\n", training_missing());
}

static void print_verbs(FILE *out)
{
    fputs("\nverbs:\n", out);
    for (size_t i = 0; i < N_VERBS; i++)
        if (!verbs[i]->absent)
            fprintf(out, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("  help         Print the page of a verb, as 'comet VERB --help' does\n", out);
    if (training_missing())
        print_absent(out);
}

static void print_overview(FILE *out)
{
    fputs("usage: comet VERB [arguments]\n\n", out);
    if (training_missing())
        fputs("Compresses tensors so that every element comes back within a bound you choose.\n", out);
    else
        fputs("Trains convolutional networks, and compresses tensors so that every element comes back\n"
              "within a bound you choose.\n",
              out);
    print_verbs(out);
    if (out == stdout)
        topics_list();
    fputs("\noptions:\n"
          "  -h, --help   print this page\n"
          "  --version    print the version\n\n"
          "exit codes: 0 ok, 1 failed, 2 usage, 3 bad input, 4 bound violated, 5 out of memory,\n"
          "130 or 143 stopped by a signal\n\n"
          "examples:\n",
          out);
    if (!training_missing())
        fputs("  comet train --model cnn28 --data fashion\n", out);
    fputs("  comet compress acts.npy -e 0.1std\n"
          "  comet decompress acts.npy.comet -o back.npy\n"
          "  comet help bench\n",
          out);
}

static const verb *find_subject(const verb *v, const char *word)
{
    for (size_t i = 0; v->subjects && v->subjects[i]; i++)
        if (strcmp(verb_word(v->subjects[i]), word) == 0)
            return v->subjects[i];
    return NULL;
}

/* `word` is the word after the verb, or NULL. */
static cli_exit unknown_subject(const verb *v, const char *word)
{
    char words[80] = "";
    nearest_word nearest = nearest_to(word ? word : "", word ? strlen(word) : 0);
    for (size_t i = 0, at = 0; v->subjects[i] && at < sizeof words; i++) {
        nearest_offer(&nearest, verb_word(v->subjects[i]));
        at += (size_t)snprintf(words + at, sizeof words - at, "%s%s", i > 0 ? " or " : "", verb_word(v->subjects[i]));
    }
    if (!word)
        return fail(CLI_USAGE, "a subject is missing after %s: %s", v->name, words);
    if (nearest_best(&nearest))
        return fail(CLI_USAGE, "unknown subject '%s'; did you mean %s?", word, nearest_best(&nearest));
    return fail(CLI_USAGE, "unknown subject '%s'; choose %s", word, words);
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* For the build: help --pages lists the manual pages, --man [VERB [SUBJECT]] prints one, --completion SHELL its completion. */
static cli_exit generate(int argc, char **argv)
{
    const verb *v = argc > 1 ? find_verb(argv[1]) : NULL;
    const verb *subject = v && argc > 2 ? find_subject(v, argv[2]) : NULL;
    if (strcmp(argv[0], "--pages") == 0 && argc == 1)
        manual_list(verbs);
    else if (strcmp(argv[0], "--man") == 0 && (argc == 1 || strcmp(argv[1], "comet") == 0))
        manual_overview(verbs);
    else if (strcmp(argv[0], "--man") == 0 && v && !v->absent && (subject ? argc == 3 : argc == 2))
        manual_verb(subject ? subject : v);
    else if (strcmp(argv[0], "--completion") != 0 || argc != 2 || !completion_print(argv[1], verbs))
        return fail(CLI_USAGE, "help takes a verb or a topic");
    return CLI_OK;
}

static cli_exit help(int argc, char **argv)
{
    if (argc == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (strncmp(argv[0], "--", 2) == 0 && !asks_for_help(argv[0]))
        return generate(argc, argv);
    const verb *v = find_verb(argv[0]);
    if (!v && argc == 1 && topic_print(argv[0]))
        return CLI_OK;
    if (!v)
        return unknown_verb(argv[0], true);
    const verb *subject = argc > 1 ? find_subject(v, argv[1]) : NULL;
    const int n_words = subject ? 2 : 1;
    if (argc > n_words)
        return fail(CLI_USAGE, "help takes one verb; unexpected: '%s'", argv[n_words]);
    v = subject ? subject : v;
    say_set_verb(v->name);
    if (v->absent)
        return training_refuse();
    verb_help(v);
    return CLI_OK;
}

/* argv are the words after the verb. */
static cli_exit run_verb(const verb *v, int argc, char **argv)
{
    say_set_verb(v->name);
    if (v->absent)
        return training_refuse();
    if (v->computes && training_check() != CLI_OK)
        return CLI_FAILED;
    if (!v->subjects)
        return verb_run(v, argc, argv);
    const verb *subject = argc > 0 ? find_subject(v, argv[0]) : NULL;
    if (subject)
        return run_verb(subject, argc - 1, argv + 1);
    if (argc > 0 && asks_for_help(argv[0])) {
        verb_help(v);
        return CLI_OK;
    }
    if (v->first_is_default && (argc == 0 || argv[0][0] == '-'))
        return run_verb(v->subjects[0], argc, argv);
    return unknown_subject(v, argc > 0 ? argv[0] : NULL);
}

static cli_exit dispatch(int argc, char **argv)
{
    const char *word = argv[0];
    if (asks_for_help(word))
        return help(0, NULL);
    if (strcmp(word, "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(word, "--version") == 0) {
        printf("comet %s\n", comet_version());
        return CLI_OK;
    }
    if (word[0] == '-')
        return fail(CLI_USAGE, "unknown option '%s'", word);
    const verb *v = find_verb(word);
    if (!v)
        return unknown_verb(word, false);
    return run_verb(v, argc - 1, argv + 1);
}

/* Memory that is freed goes back at once, so that the memory of a run can be predicted: by default glibc keeps up to
 * twice the largest block that was ever freed. */
static void free_at_once(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

static bool is_limited(int resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* malloc maps an arena of 64 MiB of addresses for each thread. Where addresses are limited (ulimit -v, -d), all threads share
 * one arena, so that enough is left for the net. */
static void save_addresses(void)
{
#ifdef M_ARENA_MAX
    if (is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA))
        mallopt(M_ARENA_MAX, 1);
#endif
}

/* If standard output is closed, the next file that is opened would become standard output, and messages would land in it.
 * /dev/null takes the place, opened so that reading standard input and writing standard output still fail. */
static void occupy_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* A write beyond the limit on file sizes (ulimit -f) then fails and is reported, as on a full disk, instead of ending the
 * program. Child processes inherit this; they are all this program. */
static void ignore_size_limit(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignore, NULL);
}

int main(int argc, char **argv)
{
    command_line_keep(argc, argv);
    occupy_standard_streams();
    ignore_size_limit();
    free_at_once();
    save_addresses();
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    return (int)close_stdout(dispatch(argc - 1, argv + 1));
}
