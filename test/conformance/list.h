/* list.h: the contract, case by case: the one list that every recipe of every engine runs.
 *
 * A case is defined in the file named in the comment above its group. */
#ifndef CONFORMANCE_LIST_H
#define CONFORMANCE_LIST_H

/* clang-format off */
#define CASES(CASE) \
    /* case_acquire.c: acquire and release */                                                     \
    CASE(acquire_takes_a_free_lock_and_release_gives_it_back)                                     \
    CASE(acquire_waits_until_the_holder_lets_go)                                                  \
    CASE(acquire_that_does_not_wait_is_busy_at_once)                                              \
    CASE(a_busy_answer_names_the_holder)                                                          \
    CASE(a_timed_out_answer_names_the_holder)                                                     \
    CASE(a_wait_with_a_limit_lasts_no_less_than_the_limit)                                        \
    CASE(a_wait_with_a_limit_succeeds_when_the_lock_comes_free_in_time)                           \
    CASE(a_wait_that_timed_out_leaves_no_waiter_behind)                                           \
    CASE(locks_of_different_names_do_not_meet)                                                    \
    CASE(a_lock_excludes_the_threads_of_one_client)                                               \
    CASE(a_lock_excludes_two_clients_of_one_process)                                              \
    CASE(without_an_owner_a_lock_is_not_re_entrant)                                               \
    CASE(a_grant_may_be_released_by_another_thread)                                               \
    CASE(signals_to_a_waiting_thread_do_not_end_its_wait)                                         \
    CASE(a_dead_holder_makes_room_for_the_next)                                                   \
    CASE(a_dead_waiter_falls_out_of_the_queue)                                                    \
    CASE(waiters_of_different_processes_are_served_in_order)                                      \
    /* case_claim.c: claims */                                                                    \
    CASE(a_claim_on_a_free_lock_is_granted)                                                       \
    CASE(a_claim_on_a_held_lock_is_pending_until_it_is_free)                                      \
    CASE(a_claim_that_is_only_asked_after_is_granted)                                             \
    CASE(a_claim_hands_out_its_grant_once)                                                        \
    CASE(a_claim_that_does_not_wait_is_busy_and_stays_so)                                         \
    CASE(a_claim_with_a_wait_limit_times_out_and_stays_so)                                        \
    CASE(cancel_from_another_thread_wakes_whoever_waits_for_the_claim)                            \
    CASE(cancel_is_idempotent_and_its_answer_is_given_again)                                      \
    CASE(cancel_after_the_grant_came_changes_nothing)                                             \
    CASE(freeing_a_claim_cancels_what_is_under_way)                                               \
    CASE(freeing_a_claim_releases_a_grant_that_was_never_fetched)                                 \
    CASE(a_claim_that_nobody_waits_for_is_granted_all_the_same)                                   \
    CASE(a_claim_knows_how_many_are_ahead)                                                        \
    CASE(a_thousand_claims_of_one_thread_are_granted_in_order)                                    \
    CASE(claims_of_many_names_go_forward_together)                                                \
    CASE(two_threads_that_wait_for_one_claim_get_one_grant)                                       \
    CASE(cancel_racing_with_the_grant_is_one_or_the_other)                                        \
    /* case_event.c: events */                                                                    \
    CASE(a_granted_claim_is_told_by_one_event)                                                    \
    CASE(a_claim_that_ends_without_a_grant_is_told_too)                                           \
    CASE(the_descriptor_is_readable_exactly_while_there_is_an_event)                              \
    CASE(blocking_acquires_emit_no_granted_event)                                                 \
    CASE(a_started_release_is_answered_by_an_event)                                               \
    CASE(a_started_release_of_a_lost_grant_answers_lost)                                          \
    CASE(a_lost_grant_is_told_once_with_its_cause_and_its_user)                                   \
    CASE(lost_is_never_replaced)                                                                  \
    CASE(events_of_a_freed_claim_are_dropped)                                                     \
    CASE(events_of_a_released_grant_are_dropped)                                                  \
    CASE(events_come_in_the_order_in_which_things_happened)                                       \
    CASE(an_event_is_written_no_further_than_the_callers_struct)                                  \
    /* case_driven.c: caller-driven clients */                                                    \
    CASE(a_driven_client_starts_no_thread)                                                        \
    CASE(a_driven_claim_is_granted_by_the_callers_own_loop)                                       \
    CASE(a_driven_client_that_is_only_stepped_hears_what_comes)                                   \
    CASE(a_driven_claim_times_out_in_the_callers_own_loop)                                        \
    CASE(a_driven_client_keeps_its_lease_alive_by_steps)                                          \
    CASE(a_driven_client_learns_of_a_loss_in_its_own_loop)                                        \
    CASE(a_driven_client_learns_of_a_break_in_its_own_loop)                                       \
    CASE(blocking_calls_work_on_a_driven_client_too)                                              \
    CASE(pollfds_tells_how_many_there_are_and_fills_what_fits)                                    \
    CASE(a_driven_client_answers_an_unkept_promise_at_its_first_claim)                            \
    /* case_lease.c: leases */                                                                    \
    CASE(renewal_keeps_a_short_lease_alive)                                                       \
    CASE(a_fixed_lease_ends_as_lost_before_another_gets_in)                                       \
    CASE(a_fixed_lease_may_be_released_early)                                                     \
    CASE(remaining_falls_to_zero_when_validity_ends)                                              \
    CASE(the_lease_of_the_client_is_the_default)                                                  \
    CASE(a_maximal_hold_ends_a_grant_that_is_renewed)                                             \
    CASE(extend_sets_the_end_and_does_not_add_to_it)                                              \
    CASE(extend_may_shorten)                                                                      \
    CASE(extend_again_and_again_keeps_a_fixed_lease)                                              \
    CASE(a_lost_grant_cannot_be_extended)                                                         \
    CASE(extend_takes_only_a_lease_within_the_limits)                                             \
    CASE(extend_does_not_reach_beyond_the_maximal_hold)                                           \
    CASE(a_stop_longer_than_a_fixed_lease_is_noticed_at_once)                                     \
    CASE(a_stopped_holder_is_never_valid_beside_another)                                          \
    CASE(a_waiter_that_was_stopped_is_served_all_the_same)                                        \
    CASE(a_starved_holder_is_never_valid_beside_another)                                          \
    /* case_share.c: shared and exclusive */                                                      \
    CASE(readers_hold_together)                                                                   \
    CASE(readers_of_one_client_hold_together)                                                     \
    CASE(readers_and_writers_exclude_each_other)                                                  \
    CASE(a_writer_waits_for_every_reader)                                                         \
    CASE(a_reader_behind_a_waiting_writer_waits)                                                  \
    CASE(readers_that_stand_together_are_admitted_together)                                       \
    CASE(a_reader_looks_only_at_earlier_writers)                                                  \
    CASE(a_stream_of_readers_does_not_starve_a_writer)                                            \
    CASE(a_stream_of_writers_does_not_starve_a_reader)                                            \
    CASE(the_end_of_one_readers_lease_does_not_touch_another)                                     \
    CASE(downgrade_admits_readers_and_keeps_the_fence)                                            \
    CASE(downgrade_lets_no_writer_in_between)                                                     \
    CASE(a_lost_grant_cannot_be_downgraded)                                                       \
    CASE(a_downgraded_grant_is_kept_alive)                                                        \
    /* case_nest.c: re-entrancy */                                                                \
    CASE(a_thread_may_take_its_lock_again)                                                        \
    CASE(nested_handles_may_end_in_any_order)                                                     \
    CASE(a_new_nest_has_a_new_fence)                                                              \
    CASE(threads_are_different_owners)                                                            \
    CASE(a_new_thread_is_not_the_one_that_ended)                                                  \
    CASE(a_named_owner_is_the_same_in_every_thread)                                               \
    CASE(the_same_owner_of_another_client_is_somebody_else)                                       \
    CASE(an_owner_does_not_nest_under_a_grant_of_nobody)                                          \
    CASE(shared_under_exclusive_is_granted)                                                       \
    CASE(shared_under_shared_is_granted)                                                          \
    CASE(exclusive_under_shared_is_a_deadlock)                                                    \
    CASE(under_a_lost_grant_nothing_is_nested)                                                    \
    CASE(every_handle_of_a_lost_nest_is_lost)                                                     \
    CASE(a_nested_grant_has_the_lease_of_the_outer_one)                                           \
    CASE(nests_of_two_names_end_each_on_its_own)                                                  \
    CASE(a_claim_nests_as_an_acquire_does)                                                        \
    CASE(an_owner_nests_although_others_wait)                                                     \
    /* case_fence.c: fences */                                                                    \
    CASE(fences_rise_with_every_grant)                                                            \
    CASE(fences_rise_across_clients_and_processes)                                                \
    CASE(fences_of_readers_are_distinct_and_rise)                                                 \
    CASE(fences_rise_between_readers_and_writers)                                                 \
    CASE(fences_rise_after_close_and_re_open)                                                     \
    CASE(fences_rise_after_a_loss_a_break_and_a_death)                                            \
    CASE(a_grant_keeps_its_fence)                                                                 \
    /* case_list.c: the list */                                                                   \
    CASE(the_list_shows_every_field_of_a_holder)                                                  \
    CASE(the_list_shows_waiters_in_queue_order)                                                   \
    CASE(the_list_shows_modes)                                                                    \
    CASE(the_list_matches_globs)                                                                  \
    CASE(the_list_goes_name_by_name)                                                              \
    CASE(a_visitor_ends_the_listing_with_its_own_answer)                                          \
    CASE(a_list_of_nothing_is_no_failure)                                                         \
    CASE(a_list_without_a_glob_visits_all)                                                        \
    CASE(a_visitor_may_call_the_library)                                                          \
    CASE(a_crowd_of_readers_is_listed_whole)                                                      \
    CASE(a_purpose_is_the_clients_unless_the_grant_has_one)                                       \
    /* case_break.c: break */                                                                     \
    CASE(break_takes_the_lock_from_its_holder_who_is_told)                                        \
    CASE(break_lets_the_next_in_and_leaves_the_queue_alone)                                       \
    CASE(break_with_another_fence_touches_nobody)                                                 \
    CASE(break_of_a_turn_that_is_over_answers_lost)                                               \
    CASE(break_of_one_reader_leaves_the_others)                                                   \
    CASE(break_ends_every_handle_of_a_nest)                                                       \
    CASE(a_broken_holder_with_a_grace_lets_go_before_the_next_gets_in)                            \
    CASE(a_grace_ends_though_the_broken_holder_stays)                                             \
    CASE(a_dead_holder_has_no_grace)                                                              \
    CASE(a_grant_that_is_broken_before_it_is_fetched_is_lost)                                     \
    /* case_open.c: opening and closing */                                                        \
    CASE(open_refuses_what_is_no_url)                                                             \
    CASE(open_refuses_unknown_recipes_and_options)                                                \
    CASE(open_finds_the_recipe_by_its_name)                                                       \
    CASE(open_without_a_url_takes_it_from_the_environment)                                        \
    CASE(required_promises_are_kept_or_refused)                                                   \
    CASE(the_promises_of_a_client_are_no_more_than_its_recipes)                                   \
    CASE(many_clients_may_be_open_at_once)                                                        \
    CASE(close_releases_what_is_held)                                                             \
    CASE(close_wakes_every_blocked_call)                                                          \
    CASE(close_ends_claims_as_cancelled)                                                          \
    CASE(close_releases_a_grant_that_was_never_fetched)                                           \
    CASE(handles_of_a_closed_client_may_end_in_any_way)                                           \
    CASE(a_started_release_is_done_when_close_returns)                                            \
    CASE(the_trace_tells_every_state_change)                                                      \
    CASE(a_client_leaves_no_thread_and_no_descriptor_behind)                                      \
    /* case_option.c: options and arguments */                                                    \
    CASE(init_functions_and_macros_agree)                                                         \
    CASE(nonsense_in_acquire_options_is_refused)                                                  \
    CASE(nonsense_in_the_size_of_acquire_options_is_refused)                                      \
    CASE(acquire_options_of_an_older_program_are_understood)                                      \
    CASE(acquire_options_of_a_newer_program_are_understood_while_their_new_fields_are_zero)       \
    CASE(nonsense_in_open_options_is_refused)                                                     \
    CASE(open_options_of_a_newer_program_are_understood_while_their_new_fields_are_zero)          \
    CASE(a_lease_at_each_limit_is_accepted)                                                       \
    CASE(missing_arguments_are_refused)                                                           \
    CASE(missing_handles_are_refused)                                                             \
    CASE(ending_nothing_does_nothing)                                                             \
    /* case_name.c: names */                                                                      \
    CASE(odd_names_are_locks_of_their_own)                                                        \
    CASE(names_that_look_alike_are_distinct)                                                      \
    CASE(long_names_are_distinct_to_the_last_byte)                                                \
    CASE(what_is_no_name_is_refused)                                                              \
    CASE(names_and_texts_are_copied)                                                              \
    /* case_tell.c: what the library tells about itself */                                        \
    CASE(every_status_has_a_text_of_its_own)                                                      \
    CASE(the_version_is_the_headers)                                                              \
    CASE(the_text_of_a_failure_belongs_to_the_thread)                                             \
    CASE(every_failure_leaves_its_own_text)                                                       \
    CASE(the_text_of_a_failed_open_needs_no_client)                                               \
    CASE(no_text_holds_a_password)                                                                \
    CASE(a_redacted_url_hides_the_password_and_nothing_else)                                      \
    CASE(every_recipe_of_this_build_is_described)                                                 \
    CASE(every_engine_has_one_default_recipe)                                                     \
    CASE(stats_count_what_happened)                                                               \
    CASE(stats_say_who_waits_now)                                                                 \
    CASE(stats_are_written_no_further_than_the_callers_struct)                                    \
    /* case_fork.c: fork */                                                                       \
    CASE(a_forked_child_gets_forked_from_every_function)                                          \
    CASE(a_forked_child_may_open_a_client_of_its_own)                                             \
    CASE(a_lock_goes_with_its_process_though_a_child_lives_on)                                    \
    CASE(a_child_that_stands_by_keeps_the_turns_of_a_dead_parent)                                 \
    CASE(a_child_that_stood_by_does_not_outlast_a_release)                                        \
    CASE(only_a_child_may_stand_by)                                                               \
    /* case_thread.c: threads */                                                                  \
    CASE(threads_lose_no_increment)                                                               \
    CASE(threads_with_clients_of_their_own_lose_no_increment)                                     \
    CASE(threads_may_use_one_client_in_every_way_at_once)                                         \
    CASE(threads_may_extend_one_grant_at_once)                                                    \
    CASE(a_client_may_be_closed_while_its_threads_are_busy)                                       \
    CASE(clients_that_meet_at_a_new_name_have_one_winner)                                         \
    CASE(the_librarys_thread_takes_no_signals)
/* clang-format on */

#endif
