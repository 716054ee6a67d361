/* terminal.h: who has the keyboard: the command, we, or somebody else? */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd;      /* of the controlling terminal; -1: there is none          */
    bool eager;  /* the command gets it from the start, not when it asks    */
    bool handed; /* the command has it                                      */
    bool has_modes;
    struct termios modes; /* as they were when it was handed over           */
};

void terminal_open(struct terminal *terminal);

/* Our group is the one that reads from the keyboard now. */
bool terminal_is_ours(const struct terminal *terminal);

/* Gives it to the group if it is ours to give. */
void terminal_hand_over(struct terminal *terminal, pid_t group);

/* Takes it back if we gave it; with `restore` also the modes as they were. */
void terminal_take_back(struct terminal *terminal, bool restore);

/* After being stopped and continued: what we believed may be wrong. */
void terminal_look_again(struct terminal *terminal, pid_t group);

#endif
