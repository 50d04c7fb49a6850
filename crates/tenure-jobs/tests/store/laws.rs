//! What every store promises, one file for each of the things that a leader does.

pub mod aging;
pub mod attempts;
pub mod fencing;
pub mod granting;
pub mod hearing;
pub mod reading;
pub mod recording;
pub mod submitting;
pub mod taking_back;
pub mod taking_over;
pub mod telling;

/// A test for each law, on a database that starts by itself.
macro_rules! every_law {
    ($backend:ty) => {
        every_law! { $backend:
            submitting {
                a_job_is_stored_and_queued,
                the_same_job_again_is_the_same_job,
                other_content_under_an_id_is_a_conflict,
                an_id_in_two_namespaces_is_two_jobs,
                ids_are_told_apart_by_case,
                only_what_is_new_is_queued,
            }
            granting {
                a_queued_job_is_handed_over_with_all_that_its_agent_needs,
                a_job_is_handed_over_only_under_the_epoch_that_it_has,
                a_job_that_is_granted_twice_is_handed_over_once,
                a_job_that_two_leases_of_a_round_want_is_the_one_leases_that_got_it,
                what_has_ended_is_not_handed_over,
                tasks_come_in_the_order_picked,
                a_lease_is_kept_unless_it_got_nothing,
            }
            recording {
                a_result_ends_its_job,
                a_failure_ends_its_job,
                result_and_error_are_kept_byte_for_byte,
                an_error_of_any_form_is_kept_as_it_was_sent,
                a_lease_that_nobody_knows_is_stale_and_not_the_job_unknown,
                the_same_result_again_is_a_duplicate,
                another_result_for_a_job_that_ended_is_stale,
                a_result_for_another_epoch_is_stale,
                a_result_under_another_lease_is_stale,
                a_result_of_another_agent_is_stale,
                a_lease_that_is_over_by_the_databases_clock_records_nothing,
                a_job_that_is_queued_takes_no_result,
                a_result_for_a_job_that_was_handed_on_is_stale,
                a_job_that_is_not_there_is_not_found,
                the_lease_tells_the_namespace_when_none_is_named,
                every_result_of_a_round_has_its_own_verdict,
            }
            taking_back {
                a_job_that_is_recalled_is_queued_under_the_next_epoch,
                what_is_not_leased_is_not_taken_back,
                a_stray_lease_is_taken_back_and_no_other,
                a_recall_is_for_one_namespace,
                a_burial_takes_back_all_that_the_agent_has,
                a_burial_leaves_an_agent_of_that_name_elsewhere_alone,
                an_agent_is_buried_once,
                an_expired_lease_is_taken_back_when_it_is_reaped,
                a_short_lease_runs_out_by_itself,
                a_job_with_two_reasons_to_come_back_moves_on_by_one_epoch,
                a_result_comes_before_a_recall_of_its_round,
                a_recall_that_means_another_epoch_or_lease_takes_nothing,
                no_more_is_taken_back_at_once_than_may_be,
            }
            attempts {
                a_job_that_is_given_back_is_queued_under_the_next_epoch_and_never_counts,
                so_many_lost_leases_end_a_job_and_what_was_recalled_does_not_count,
                a_failure_is_tried_again_after_a_pause_that_doubles,
                a_deadline_ends_a_job_whether_or_not_somebody_has_it,
                a_run_lasts_no_longer_than_it_may_whatever_is_heard,
                who_names_no_leases_has_them_for_ten_at_most,
                a_lease_lasts_as_long_as_was_asked_for,
                a_heartbeat_hears_which_of_its_leases_are_gone,
            }
            hearing {
                an_agent_that_is_heard_is_alive_and_shown_as_it_said,
                the_last_word_of_an_agent_counts,
                a_heartbeat_extends_a_lease_when_a_third_of_it_has_passed,
                a_heartbeat_that_names_its_leases_extends_only_those,
                what_another_agent_names_is_not_extended,
                a_heartbeat_does_not_extend_what_has_expired,
                a_heartbeat_does_not_extend_anothers_lease,
                a_heartbeat_comes_before_the_results_of_its_round,
                a_stale_agent_and_a_tombstone_are_alive_when_they_are_heard,
            }
            aging {
                an_agent_ages_at_its_times_and_each_is_told_once,
                an_agent_that_was_silent_for_long_is_a_tombstone_at_once,
                an_agent_ages_by_itself,
                a_tombstone_that_was_asked_for_is_forgotten_in_its_time,
                something_has_run_out_exactly_when_something_is_due,
            }
            taking_over {
                nobody_has_led_an_empty_database,
                the_last_leader_and_where_it_is_are_known,
                what_ran_out_counts_where_it_is_spared_and_nowhere_else,
                what_an_agent_had_that_works_no_more_is_queued_in_every_namespace,
                open_leases_of_earlier_terms_are_inherited,
                a_leader_of_another_scope_is_refused_and_changes_nothing,
            }
            fencing {
                a_term_that_is_over_changes_nothing,
                a_term_that_is_over_does_not_take_over,
                every_change_is_stamped_with_its_term,
                a_round_that_fails_changes_nothing,
            }
            telling {
                a_jobs_life_is_told_in_order,
                events_are_numbered_without_gaps,
                a_namespace_hears_of_itself_and_of_what_concerns_all,
                events_are_read_between_two_numbers,
                the_newest_events_are_kept,
                a_reaping_round_leaves_no_more_events_than_are_kept,
                no_events_are_a_span_that_is_empty,
                the_events_of_every_term_go_by_a_name_of_their_own,
                whoever_listens_hears_of_a_write,
            }
            reading {
                queued_jobs_come_by_priority_in_pages_in_the_order_of_age,
                leased_and_ended_jobs_are_not_queued,
                open_leases_are_counted,
                a_job_is_shown_with_all_that_it_has,
                jobs_are_listed_by_each_filter_the_newest_first,
                agents_are_listed_by_namespace,
            }
        }
    };
    ($backend:ty: $($subject:ident { $($law:ident),* $(,)? })*) => {
        $(
            mod $subject {
                use super::*;

                $(
                    #[tokio::test(flavor = "multi_thread")]
                    async fn $law() {
                        crate::laws::$subject::$law(&<$backend>::start().await).await;
                    }
                )*
            }
        )*
    };
}
