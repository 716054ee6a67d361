/* history.h: did what happened keep the promises of a lock?
 *
 * Every process and thread of a test writes down what it did, with CLOCK_BOOTTIME, into one log in
 * shared memory, so that nothing is lost when it is killed. Afterwards one look at the whole log
 * tells whether two ever held what only one may hold, whether fences rose in the order of the
 * grants, and whether anybody was passed by in the queue. */
#ifndef TEST_HISTORY_H
#define TEST_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When the clock is read decides what a record proves. */
enum history_kind {
    HISTORY_ASK,     /* about to ask: read before the call                                    */
    HISTORY_QUEUED,  /* certainly in line: read after it was seen there                       */
    HISTORY_GRANTED, /* has it: read after the call returned; with the fence                  */
    HISTORY_VALID,   /* still believed: read before hf_grant_valid() answered true            */
    HISTORY_END,     /* believed until then and no longer: read before the release, or the    *
                      * last instant at which it was valid                                    */
    HISTORY_KILL,    /* a process is about to be killed: read before kill(2); attempt 0       */
};

struct history_record {
    enum history_kind kind;
    uint32_t lock;     /* a number for each lock; 0 for KILL */
    int mode;          /* enum hf_mode */
    pid_t process;     /* who did it, or who is killed */
    uint64_t attempt;  /* from history_attempt; the same in all records of one attempt */
    uint64_t fence;    /* of GRANTED */
    uint64_t until_ns; /* of GRANTED and VALID: until then it is believed by itself, whatever    *
                        * happens to its process, and no longer; 0: for ever */
    uint64_t at_ns;
};

struct history; /* in shared memory: fork, and write on */

struct history *history_new(size_t records_max);
void history_free(struct history *history);
uint64_t history_attempt(struct history *history); /* a number that nobody else has, not 0 */
uint64_t history_now_ns(void);

/* Any thread of any process that inherited it. Beyond records_max the history is spoilt. */
void history_add(struct history *history, const struct history_record *record);

struct history_report {
    size_t grants;
    size_t kills;
    size_t killed_holders; /* grants that ended by the death of their process */
    bool kept;             /* every promise was kept */
    char text[256];        /* the first violation, or "" */
};

enum history_order {
    HISTORY_ANY_ORDER,
    HISTORY_QUEUE_ORDER, /* whoever was in line before another asked is granted before it */
};

struct history_report history_check(const struct history *history, enum history_order order);

#endif
