/* waitline.h: the line that a person sees while waiting. */
#ifndef CLI_WAITLINE_H
#define CLI_WAITLINE_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>

struct waitline {
    bool drawn; /* it stands on the terminal now                             */
    bool told;  /* -v, where there is no terminal: it was said once          */
    uint64_t next_ns;
};

/* The standard error is a terminal that can rewrite a line. */
bool waitline_is_possible(void);

void waitline_begin(struct waitline *waitline, uint64_t now_ns);

/* Says who holds the lock and how many are ahead. */
void waitline_draw(struct waitline *waitline, hf_client *client, const char *name, int ahead);

/* One line, for those who have no terminal. */
void waitline_say(struct waitline *waitline, hf_client *client, const char *name, int ahead);

/* Wipes it off. */
void waitline_clear(struct waitline *waitline);

#endif
