-- Functions are made anew, because one with other parameters or another answer cannot be replaced. Those that
-- tables and triggers use keep their shape, and stay.
DO $$
DECLARE
    v_function pg_catalog.regprocedure;
BEGIN
    FOR v_function IN
        SELECT p.oid::pg_catalog.regprocedure
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'public'::pg_catalog.regnamespace
            AND p.proname = ANY (ARRAY[
                'announce_outbox_work', 'append_lost_outbox_attempts', 'bump_participant_outbox_seq',
                'claim_outbox_batch', 'complete_outbox_attempt', 'complete_outbox_attempts',
                'enqueue_payment_outbox', 'enqueue_payment_outbox_batch', 'extend_outbox_leases',
                'find_payment_outbox', 'first_of_ordered_participants', 'is_first_in_order', 'lock_outbox_leases',
                'look_for_claimable_outbox',
                'outbox_retry_ceiling', 'release_outbox_leases', 'repair_expired_leases', 'uuid_strategy'
            ])
    LOOP
        EXECUTE pg_catalog.format('DROP FUNCTION %s', v_function);
    END LOOP;
END
$$;
