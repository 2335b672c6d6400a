/* comet: finds the verb, hands it the rest of the command line, and sees that stdout was written. */
#include <stdio.h>
#include <string.h>

#include "comet/codec.h"
#include "suggest.h"
#include "verbs.h"

static const verb *const verbs[] = {
    &verb_compress, &verb_decompress, &verb_info, &verb_verify, &verb_bench, &verb_generate, &verb_doctor, &verb_demo,
#ifdef COMET_HAVE_TRAIN
    &verb_models,
#endif
};

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < N_ITEMS(verbs); i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

static cli_exit unknown_verb(const char *name)
{
    suggestion nearest = suggestion_start(name);
    for (size_t i = 0; i < N_ITEMS(verbs); i++)
        suggestion_offer(&nearest, verbs[i]->name);
    suggestion_offer(&nearest, "help");
    const char *best = suggestion_best(&nearest);
    if (best)
        return fail(CLI_USAGE, "unknown verb '%s'; did you mean %s?", name, best);
    return fail(CLI_USAGE, "unknown verb '%s'", name);
}

static void print_overview(FILE *out)
{
    fputs("usage: comet VERB [arguments]\n\n"
          "Compresses tensors so that every element comes back within a bound you choose.\n\nverbs:\n",
          out);
    for (size_t i = 0; i < N_ITEMS(verbs); i++)
        fprintf(out, "  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("  help         Print the page of a verb, as 'comet VERB --help' does\n\n"
          "options:\n"
          "  -h, --help   print this page\n"
          "  --version    print the version\n\n"
          "exit codes: 0 ok, 1 failed, 2 usage, 3 bad input, 4 bound violated, 5 out of memory\n\n"
          "examples:\n"
          "  comet compress acts.npy -e 0.1std\n"
          "  comet decompress acts.npy.comet -o back.npy\n"
          "  comet help bench\n",
          out);
}

static cli_exit help(int argc, char **argv)
{
    if (argc == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    const verb *v = find_verb(argv[0]);
    if (!v)
        return unknown_verb(argv[0]);
    const int n_words = argc > 1 && v->subject && strcmp(argv[1], v->subject) == 0 ? 2 : 1;
    if (argc > n_words)
        return fail(CLI_USAGE, "help takes one verb; '%s' is not expected", argv[n_words]);
    verb_help(v);
    return CLI_OK;
}

static cli_exit dispatch(int argc, char **argv)
{
    const char *word = argv[0];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
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
        return unknown_verb(word);
    say_set_verb(v->name);
    return verb_run(v, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    return (int)close_stdout(dispatch(argc - 1, argv + 1));
}
