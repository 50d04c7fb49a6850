-- The functions run as symphony_control, which alone writes; the tables and their trigger belong to whoever
-- installs, so that not even symphony_control can remove what keeps attempts append-only.
GRANT CREATE ON SCHEMA public TO symphony_control;
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
                'outbox_retry_ceiling', 'release_outbox_leases', 'repair_expired_leases', 'uuid_strategy',
                'uuid_v7_or_random', 'uuidv7'
            ])
    LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s OWNER TO symphony_control', v_function);
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', v_function);
    END LOOP;
END
$$;
REVOKE CREATE ON SCHEMA public FROM symphony_control;
REVOKE ALL ON FUNCTION public.deny_outbox_attempts_mutation() FROM PUBLIC;
