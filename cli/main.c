/* main.c: which verb is meant?
 *
 * The first word chooses; the verb does the rest and answers the exit status. Whatever was printed
 * must have arrived: a list that a full disk cut short is not a success. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exit.h"
#include "say.h"
#include "verbs.h"

/* Started with a standard descriptor closed, the next file that is opened would take its number,
 * and a message would be written into a lock table. The place holders are close-on-exec: a
 * command that is run finds them closed, as we did. */
static int fill_standard_descriptors(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return EXIT_SYSTEM;
    close(fd);
    return EXIT_FINE;
}

static int choose(int argc, char **argv)
{
    const struct verb *verb;

    if (argc < 2)
        return verbs_help(NULL);
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)
        return verbs_help(NULL);
    if (strcmp(argv[1], "-V") == 0 || strcmp(argv[1], "--version") == 0)
        return cmd_version(1, argv);

    verb = verbs_find(argv[1]);
    if (!verb) {
        if (argv[1][0] == '-')
            say("there is no option '%s' before the verb; see 'holdfast help'", argv[1]);
        else
            say("there is no verb '%s'; 'holdfast help' lists them", argv[1]);
        return EXIT_USAGE;
    }
    return verb->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int exit_status;

    if (fill_standard_descriptors() != EXIT_FINE)
        return EXIT_SYSTEM;
    setlocale(LC_CTYPE, "");

    exit_status = choose(argc, argv);

    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_status == EXIT_FINE) {
        say("cannot write the output: %s", strerror(errno));
        return EXIT_SYSTEM;
    }
    return exit_status;
}
