/* faults.h: the list of the fault cases. */
#ifndef FAULTS_FAULTS_H
#define FAULTS_FAULTS_H

#include "scene.h"

/* clang-format off */
#define FAULTS(FAULT) \
    /* fault_exclusion.c */                                   \
    FAULT(no_increment_is_lost)                               \
    FAULT(readers_never_see_a_half_written_pair)              \
    /* fault_kill.c */                                        \
    FAULT(a_killed_holder_is_followed_by_the_next)            \
    FAULT(a_thousand_kills_leave_nothing_behind)              \
    /* fault_stop.c */                                        \
    FAULT(a_stopped_holder_with_a_fixed_lease_is_passed_by)   \
    FAULT(a_stopped_holder_without_a_lease_keeps_the_lock)    \
    FAULT(stops_at_any_moment_break_no_promise)               \
    /* fault_crowd.c */                                       \
    FAULT(a_thousand_waiters_are_served_in_order)             \
    FAULT(waiters_beyond_the_limit_are_refused)               \
    FAULT(a_hundred_thousand_names_live_in_one_place)         \
    FAULT(one_client_holds_ten_thousand)
/* clang-format on */

#define FAULT_ROLE(sentence)    void fault_##sentence(struct scene *scene)
#define FAULT_DECLARE(sentence) FAULT_ROLE(sentence);
FAULTS(FAULT_DECLARE)

#endif
