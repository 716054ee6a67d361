/* say.h: what the command tells people, on the standard error. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

/* One line, with the program's name before it. Whatever the arguments hold, no control byte reaches
 * the terminal. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* The same, and rather not at all than wait for a terminal or a pipe that takes nothing now: for a
 * process with a lock to look after. */
__attribute__((format(printf, 1, 2))) void say_now(const char *format, ...);

#endif
