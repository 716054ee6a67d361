/* verbs.h: what the command can do: one row, one file, one page for each verb. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include <stddef.h>

struct verb {
    const char *name;
    const char *summary;
    const char *page; /* what `holdfast help VERB` prints; NULL: it knows --help itself */
    int (*run)(int argc, char **argv);
};

/* In the order of the overview; NULL behind the last. */
const struct verb *verbs_at(size_t index);
const struct verb *verbs_find(const char *name);

/* Prints the page of a verb, or the overview for NULL; both give exit statuses. */
int verbs_help(const char *name);

int cmd_run(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_break(int argc, char **argv);
int cmd_engines(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

extern const char cmd_run_page[];
extern const char cmd_ls_page[];
extern const char cmd_show_page[];
extern const char cmd_break_page[];
extern const char cmd_engines_page[];
extern const char cmd_version_page[];
extern const char cmd_help_page[];

#endif
