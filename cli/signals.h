/* signals.h: signals as things to read, not as interruptions. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    int fd;                        /* readable while a signal is there              */
    sigset_t received;             /* the mask as we found it, for the command      */
    struct sigaction child_action; /* what was to be done on SIGCHLD, for the same  */
};

enum signals_kind {
    SIGNALS_FATAL,    /* ends a program that does not care                     */
    SIGNALS_STOP,     /* SIGTSTP                                               */
    SIGNALS_CONTINUE, /* SIGCONT                                               */
    SIGNALS_CHILD,    /* SIGCHLD                                               */
    SIGNALS_QUIET,    /* SIGWINCH, SIGURG: does nothing unless it is asked for */
    SIGNALS_OWN,      /* SIGPIPE by our own writing: an error was answered too */
};

struct signals_one {
    int number;
    enum signals_kind kind;
    bool from_keyboard; /* the terminal sent it, to our whole group */
};

/* From here on signals wait to be read. Answers 0 or an errno. */
int signals_take(struct signals *signals);

/* false: none is there. */
bool signals_next(const struct signals *signals, struct signals_one *out_one);

/* In a forked child: mask and dispositions as we found them. Safe after fork. */
void signals_give_back(const struct signals *signals);

/* Stops this process (and for the terminal's stop signals its whole group, as the terminal would
 * have done), and returns when it is continued; at once where nobody could continue it. */
void signals_stop(int number);

/* Ends this process by that very signal, without a core file. */
_Noreturn void signals_die(int number);

#endif
