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

/* On a server, with somebody who does what scene_order asks for (test/faults/store). */
#define STORE_FAULTS(FAULT) \
    /* fault_store.c */                                                \
    FAULT(a_killed_holder_is_followed_when_its_lease_ends)             \
    FAULT(a_holder_stopped_beyond_its_lease_is_passed_by_and_knows_it) \
    FAULT(a_server_that_comes_back_still_knows_who_holds_and_who_waits) \
    FAULT(a_holder_that_dies_while_the_server_is_away_is_followed)     \
    FAULT(a_connection_cut_in_the_middle_of_a_release_frees_the_lock)  \
    FAULT(a_request_delivered_after_we_gave_up_takes_nothing)          \
    FAULT(a_request_that_we_gave_up_is_undone_when_it_arrives)         \
    FAULT(waiters_get_there_though_every_message_is_lost)              \
    FAULT(cuts_at_any_byte_break_no_promise)                           \
    FAULT(trouble_of_every_kind_breaks_no_promise)                     \
    FAULT(sessions_that_are_ended_break_no_promise)                    \
    FAULT(a_thousand_waiters_of_ten_processes_are_served_in_order)

/* On so many servers that know nothing of each other. */
#define QUORUM_SERVERS 5
#define QUORUM_FAULTS(FAULT) \
    /* fault_quorum.c */                                               \
    FAULT(with_two_of_five_dead_it_goes_on)                            \
    FAULT(with_two_of_five_silent_it_goes_on)                          \
    FAULT(with_three_of_five_dead_nothing_is_granted_and_nothing_left) \
    FAULT(with_three_of_five_silent_nothing_is_granted_and_nothing_left) \
    /* fault_torture.c */                                              \
    FAULT(torture_of_five_servers_breaks_no_promise)                   \
    FAULT(the_greatest_of_five_counters_is_no_fence)

/* On so many servers that are one, as long as a majority is there. */
#define ENSEMBLE_SERVERS 3
#define ENSEMBLE_FAULTS(FAULT) \
    /* fault_ensemble.c */                                             \
    FAULT(a_killed_holder_is_followed_on_an_ensemble)                  \
    FAULT(a_leader_that_is_killed_costs_nobody_the_lock)               \
    FAULT(a_leader_that_stands_still_costs_nobody_the_lock)            \
    FAULT(a_follower_that_is_killed_costs_nobody_the_lock)             \
    FAULT(servers_that_are_killed_in_turn_cost_nobody_the_lock)        \
    FAULT(without_a_majority_nobody_holds_and_then_service_resumes)    \
    FAULT(with_a_majority_that_stands_still_nobody_holds)              \
    FAULT(who_is_cut_off_from_all_servers_knows_before_the_next_comes) \
    FAULT(trouble_with_servers_of_an_ensemble_breaks_no_promise)
/* clang-format on */

#define FAULT_ROLE(sentence)    void fault_##sentence(struct scene *scene)
#define FAULT_DECLARE(sentence) FAULT_ROLE(sentence);
FAULTS(FAULT_DECLARE)
STORE_FAULTS(FAULT_DECLARE)
QUORUM_FAULTS(FAULT_DECLARE)
ENSEMBLE_FAULTS(FAULT_DECLARE)

#endif
