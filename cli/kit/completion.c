/* Completion for bash, zsh and fish; see manual.h. A value called DIR completes to folders, FILE to files, --model to nets. */
#include <stdio.h>
#include <string.h>

#include "kit/manual.h"

/* Calls `each` for every verb of this build, and for subjects in their place; a default subject's options are the verb's, too.
 */
static void for_each(const verb *const *verbs, void (*each)(const verb *v, const verb *with_options))
{
    for (; *verbs; verbs++) {
        const verb *v = *verbs;
        if (v->absent)
            continue;
        each(v, v->subjects && v->first_is_default ? v->subjects[0] : v);
        for (size_t i = 0; v->subjects && v->subjects[i]; i++)
            if (!v->subjects[i]->absent)
                each(v->subjects[i], v->subjects[i]);
    }
}

static void for_each_option(const verb *v, void (*each)(const verb *v, const option *o))
{
    static const option help = {.letter = 'h', .name = "help", .help = "print this page"};
    size_t n_common = 0;
    const option *common = options_common(v->n_options, &n_common);
    for (size_t i = 0; i < v->n_options; i++)
        each(v, &v->options[i]);
    for (size_t i = 0; i < n_common; i++)
        each(v, &common[i]);
    each(v, &help);
}

/* What a value is completed to. */
static const char *kind_of(const option *o)
{
    if (!o->value || !option_takes_value(o))
        return "";
    return strcmp(o->value, "DIR") == 0    ? "dir"
           : strcmp(o->value, "FILE") == 0 ? "file"
           : strcmp(o->name, "model") == 0 ? "net"
                                           : "none";
}

/* The help text up to a line end, with characters that shells know left out. */
static void print_summary(const char *text)
{
    for (; *text != '\0' && *text != '\n'; text++)
        if (!strchr("'\"\\[]:`$", *text))
            putchar(*text);
}

/* ---- bash ---- */

static void bash_word(const verb *v, const option *o)
{
    (void)v;
    printf(" --%s", o->name);
    if (o->letter)
        printf(" -%c", o->letter);
}

static void bash_value(const verb *v, const option *o)
{
    const char *kind = kind_of(o);
    (void)v;
    if (kind[0] == '\0')
        return;
    printf("        --%s", o->name);
    if (o->letter)
        printf("|-%c", o->letter);
    printf(") kind=%s ;;\n", kind);
}

static void bash_verb(const verb *v, const verb *with_options)
{
    printf("    '%s')\n        words='", v->name);
    for (size_t i = 0; v->subjects && v->subjects[i]; i++)
        printf(" %s", verb_word(v->subjects[i]));
    for_each_option(with_options, bash_word);
    printf("'\n        case $before in\n");
    for_each_option(with_options, bash_value);
    printf("        esac ;;\n");
}

static void print_names(const verb *const *verbs)
{
    for (; *verbs; verbs++)
        if (!(*verbs)->absent)
            printf(" %s", (*verbs)->name);
    printf(" help");
}

static void print_bash(const verb *const *verbs)
{
    printf(
        "# bash completion for comet\n_comet() {\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local verb=${COMP_WORDS[1]} words='' kind=file\n    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '");
    print_names(verbs);
    printf(" --help --version' -- \"$word\"))\n        return\n    fi\n"
           "    if [ \"$verb\" = help ]; then\n        COMPREPLY=($(compgen -W '");
    print_names(verbs);
    printf("' -- \"$word\"))\n        return\n    fi\n"
           "    case \"$verb ${COMP_WORDS[2]}\" in\n");
    for (const verb *const *v = verbs; *v; v++)
        for (size_t i = 0; !(*v)->absent && (*v)->subjects && (*v)->subjects[i]; i++)
            printf("    '%s') [ \"$COMP_CWORD\" -gt 2 ] && verb='%s' ;;\n", (*v)->subjects[i]->name, (*v)->subjects[i]->name);
    printf("    esac\n    case $verb in\n");
    for_each(verbs, bash_verb);
    printf(
        "    esac\n"
        "    if [ \"${word#-}\" = \"$word\" ] && [ \"$kind\" = file ] && [ -n \"$words\" ] && [ \"$COMP_CWORD\" -eq 2 ]; then\n"
        "        COMPREPLY=($(compgen -W \"${words%%%% -*}\" -- \"$word\"))\n    fi\n"
        "    case $kind in\n"
        "    dir) COMPREPLY=($(compgen -d -- \"$word\")); compopt -o filenames 2>/dev/null ;;\n"
        "    net) COMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" models 2>/dev/null | awk 'NR > 1 { print $1 }')\" -- "
        "\"$word\")) ;;\n"
        "    file)\n        if [ \"${word#-}\" != \"$word\" ]; then\n            COMPREPLY=($(compgen -W \"$words\" -- "
        "\"$word\"))\n"
        "        else\n            COMPREPLY+=($(compgen -f -- \"$word\")); compopt -o filenames 2>/dev/null\n        fi ;;\n"
        "    esac\n}\ncomplete -F _comet comet\n");
}

/* ---- zsh ---- */

static void zsh_option(const verb *v, const option *o)
{
    const char *kind = kind_of(o), *action = strcmp(kind, "dir") == 0    ? "_files -/"
                                             : strcmp(kind, "file") == 0 ? "_files"
                                                                         : " ";
    (void)v;
    printf(" \\\n            '--%s%s[", o->name, kind[0] != '\0' ? "=" : "");
    print_summary(o->help);
    printf("]");
    if (kind[0] != '\0')
        printf(":%s:%s", o->value, action);
    printf("'");
}

static void zsh_verb(const verb *v, const verb *with_options)
{
    printf("    '%s')\n        _arguments", v->name);
    for_each_option(with_options, zsh_option);
    printf(" \\\n            '*:file:_files' ;;\n");
}

static void print_zsh(const verb *const *verbs)
{
    printf("#compdef comet\n_comet() {\n    local verb=$words[2]\n    if (( CURRENT == 2 )); then\n        compadd --");
    print_names(verbs);
    printf("\n        return\n    fi\n    case \"$words[2] $words[3]\" in\n");
    for (const verb *const *v = verbs; *v; v++)
        for (size_t i = 0; !(*v)->absent && (*v)->subjects && (*v)->subjects[i]; i++)
            printf("    '%s') (( CURRENT > 3 )) && verb='%s' ;;\n", (*v)->subjects[i]->name, (*v)->subjects[i]->name);
    printf("    esac\n    case $verb in\n");
    for_each(verbs, zsh_verb);
    printf("    esac\n}\n_comet \"$@\"\n");
}

/* ---- fish ---- */

static void fish_option(const verb *v, const option *o)
{
    const char *kind = kind_of(o), *space = strchr(v->name, ' ');
    printf("complete -c comet -n '__fish_seen_subcommand_from %.*s", (int)(space ? space - v->name : (long)strlen(v->name)),
           v->name);
    if (space)
        printf("; and __fish_seen_subcommand_from %s", space + 1);
    printf("' -l %s", o->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    printf("%s -d '", kind[0] == '\0' ? "" : strcmp(kind, "file") == 0 || strcmp(kind, "dir") == 0 ? " -r" : " -x");
    print_summary(o->help);
    printf("'\n");
}

static void fish_verb(const verb *v, const verb *with_options)
{
    (void)v;
    for_each_option(with_options, fish_option);
}

static void print_fish(const verb *const *verbs)
{
    for (const verb *const *v = verbs; *v; v++) {
        if ((*v)->absent)
            continue;
        printf("complete -c comet -n __fish_use_subcommand -f -a %s -d '", (*v)->name);
        print_summary((*v)->summary);
        printf("'\n");
    }
    for_each(verbs, fish_verb);
}

bool completion_print(const char *shell, const verb *const *verbs)
{
    if (strcmp(shell, "bash") == 0)
        print_bash(verbs);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(verbs);
    else if (strcmp(shell, "fish") == 0)
        print_fish(verbs);
    else
        return false;
    return true;
}
