/* exit.h: the statuses that the command ends with; scripts rely on them. */
#ifndef CLI_EXIT_H
#define CLI_EXIT_H

#include <holdfast/holdfast.h>

enum exit_status {
    EXIT_FINE = 0,
    EXIT_NOBODY = 1,       /* show: nobody holds or waits; break: that turn is over     */
    EXIT_USAGE = 64,       /* the command line                                          */
    EXIT_NAME = 65,        /* not a lock name                                           */
    EXIT_UNREACHABLE = 69, /* the store cannot be reached, or did not answer            */
    EXIT_INTERNAL = 70,    /* what should not happen                                    */
    EXIT_SYSTEM = 71,      /* the operating system refused, or memory ran out           */
    EXIT_BUSY = 75,        /* not acquired: busy, the wait ended, or a limit            */
    EXIT_PROTOCOL = 76,    /* the store answered nonsense, or went back in time         */
    EXIT_DENIED = 77,      /* the store refused the credentials or the rights           */
    EXIT_CONFIG = 78,      /* URL, configuration, a required promise, unsupported       */
    EXIT_LOST = 79,        /* the lock was lost and the command was stopped             */
    EXIT_CANNOT_EXECUTE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL_BASE = 128, /* plus the signal that ended the command                   */
};

int exit_of(int status);

/* Tells what failed and what to do about it, and gives the status to end with. The client may be
 * NULL: then it speaks of hf_open(). */
int exit_failed(const hf_client *client, int status);

#endif
