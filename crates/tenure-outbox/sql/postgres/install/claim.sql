-- Leases up to p_batch_size due rows to a worker, oldest first, and returns them. A row whose lease has expired
-- is due as well: its lost attempt is appended and counted first, and at the ceiling it ends FAILED instead of
-- being returned. What must be worked in order is returned only when nothing of it comes before.
-- SQLSTATE 22023: a parameter is missing or not above 0.
--
-- Nothing here waits for a lock, so the clock is read once. Settings: the index gives the order, whatever the
-- statistics say.
--
-- Marks. Rows that were claimed or finished stay in the indexes until vacuum may remove them, and one open
-- snapshot anywhere keeps it from doing so; walking over all of them would make every claim slower than the one
-- before. So a session remembers up to where it has taken everything, and looks from there on. What it has not
-- seen there (rows that are committed later, or were locked by others who then gave up) is found by a sweep,
-- which looks everywhere: when there is not enough work behind the marks and the last sweep was quick, and
-- otherwise as often as sweeps take no more than a sixtieth of the time, but every ten seconds at least: one that took
-- long because its process was frozen says nothing about the next.
CREATE OR REPLACE FUNCTION public.claim_outbox_batch(p_batch_size integer, p_worker_id text, p_lease_seconds integer)
RETURNS TABLE (
    outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text,
    rail_type text, payload jsonb, attempt_count integer, lease_token uuid, lease_expires_at timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    c_quick_us CONSTANT bigint := 20000;
    c_longest_us CONSTANT bigint := 10000000;
    v_now timestamp with time zone := clock_timestamp();
    v_now_us bigint := extract(epoch FROM v_now) * 1000000;
    v_setting pg_catalog.text := current_setting('symphony.outbox_claim_marks', true);
    -- Due from, leased from, when it last swept, how long that took: in microseconds.
    v_marks bigint[];
    v_due_from timestamp with time zone;
    v_leased_from timestamp with time zone;
    v_expired pg_catalog.uuid[];
    v_due pg_catalog.uuid[];
    v_requeued pg_catalog.uuid[];
    v_numbers integer[];
BEGIN
    IF coalesce(p_batch_size, 0) < 1 OR coalesce(p_lease_seconds, 0) < 1 OR coalesce(p_worker_id, '') = '' THEN
        RAISE EXCEPTION 'p_batch_size and p_lease_seconds must be above 0, and p_worker_id must not be blank'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;

    IF v_setting ~ '^\{\d{1,17}(,\d{1,17}){3}\}$' THEN
        v_marks := v_setting::bigint[];
        -- A clock that went back makes them void.
        IF v_now_us BETWEEN greatest(v_marks[1], v_marks[2], v_marks[3])
            AND v_marks[3] + least(60 * v_marks[4], c_longest_us)
        THEN
            v_due_from := timestamp with time zone 'epoch' + v_marks[1] * interval '1 microsecond';
            v_leased_from := timestamp with time zone 'epoch' + v_marks[2] * interval '1 microsecond';
            SELECT l.* INTO v_expired, v_due, v_due_from, v_leased_from
            FROM public.look_for_claimable_outbox(p_batch_size, v_now, v_due_from, v_leased_from) AS l;
            IF coalesce(cardinality(v_expired || v_due), 0) < p_batch_size AND v_marks[4] < c_quick_us THEN
                v_marks := NULL;
            END IF;
        ELSE
            v_marks := NULL;
        END IF;
    END IF;
    IF v_marks IS NULL THEN
        SELECT l.* INTO v_expired, v_due, v_due_from, v_leased_from
        FROM public.look_for_claimable_outbox(p_batch_size, v_now, '-infinity', '-infinity') AS l;
        v_marks := ARRAY[0, 0, v_now_us, extract(epoch FROM clock_timestamp() - v_now) * 1000000];
    END IF;

    IF v_expired IS NOT NULL THEN
        SELECT array_agg(l.outbox_id), array_agg(l.attempt_no) INTO v_requeued, v_numbers
        FROM public.append_lost_outbox_attempts(v_expired, p_worker_id, v_now) AS l
        WHERE l.state = 'ZOMBIE_REQUEUE';
    END IF;
    RETURN QUERY
        UPDATE public.payment_outbox_pending AS p
        SET claimed_by = p_worker_id,
            claimed_at = v_now,
            lease_token = gen_random_uuid(),
            lease_expires_at = clock_timestamp() + make_interval(secs => p_lease_seconds),
            attempt_count = greatest(p.attempt_count, u.attempt_no)
        FROM unnest(v_requeued || v_due, v_numbers) AS u(outbox_id, attempt_no)
        WHERE p.outbox_id = u.outbox_id
        RETURNING p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type,
            p.payload, p.attempt_count, p.lease_token, p.lease_expires_at;

    v_marks[1] := 1000000 * extract(epoch FROM greatest(v_due_from, timestamp with time zone 'epoch'));
    v_marks[2] := 1000000 * extract(epoch FROM greatest(v_leased_from, timestamp with time zone 'epoch'));
    PERFORM set_config('symphony.outbox_claim_marks', v_marks::pg_catalog.text, false);
END
$$;
COMMENT ON FUNCTION public.claim_outbox_batch(integer, text, integer) IS
    'Leases due rows. An expired lease is recorded as a lost attempt before the row is leased again, so a row that kills its workers reaches the ceiling.';
