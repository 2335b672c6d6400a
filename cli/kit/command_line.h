/* The words that this program was started with, for logs. */
#ifndef COMET_CLI_COMMAND_LINE_H
#define COMET_CLI_COMMAND_LINE_H

/* Keeps the words; parsing options moves them. Called once, by main. What it cannot keep, command_line lacks. */
void command_line_keep(int argc, char **argv);

/* The words, ended by NULL. */
char *const *command_line(void);

#endif
