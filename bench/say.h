/* say.h: what a person has to know, on standard error; and the statuses that scripts rely on. */
#ifndef BENCH_SAY_H
#define BENCH_SAY_H

enum bench_exit {
    BENCH_EXIT_FINE = 0,
    BENCH_EXIT_VIOLATION = 1, /* two were inside at once: a lock failed */
    BENCH_EXIT_USAGE = 64,
    BENCH_EXIT_NAME = 65,
    BENCH_EXIT_UNREACHABLE = 69,
    BENCH_EXIT_INTERNAL = 70,
    BENCH_EXIT_SYSTEM = 71,
    BENCH_EXIT_BUSY = 75,
    BENCH_EXIT_PROTOCOL = 76,
    BENCH_EXIT_DENIED = 77,
    BENCH_EXIT_CONFIG = 78,
    BENCH_EXIT_LOST = 79,
};

__attribute__((format(printf, 1, 2))) void bench_say(const char *format, ...);

/* What to end with after this answer of the library. */
int bench_say_exit_of(int status);
/* "", or what can be done about it. */
const char *bench_say_hint(int status);

#endif
