/* status.h: --status-fd: what happens to the lock, as lines of JSON. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#include <stdint.h>

struct status {
    int fd; /* -1: nobody asked for it, or nobody reads any more */
    const char *name;
    uint64_t fence; /* 0: not granted yet */
};

/* What an event has to say beside the name and the fence; -1 and NULL are left out. */
struct status_detail {
    int64_t remaining_ms;
    int64_t position;
    int64_t waited_ms;
    int64_t exit_status;
    const char *cause;
};
#define STATUS_DETAIL_NONE                                                                         \
    ((struct status_detail){                                                                       \
        .remaining_ms = -1, .position = -1, .waited_ms = -1, .exit_status = -1, .cause = NULL })

void status_tell(struct status *status, const char *event, struct status_detail detail);

#endif
