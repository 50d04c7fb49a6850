-- Writes the beginning of a term into the history, and the end of whatever was still open before it.
CREATE OR REPLACE FUNCTION tenure_begin_term(scope text, holder text, epoch bigint, lock_kind text)
RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
    UPDATE tenure_terms AS t SET ended_at = clock_timestamp(), reason = 'taken_over'
    WHERE t.scope = $1 AND t.ended_at IS NULL AND t.epoch < $3;
    INSERT INTO tenure_terms (scope, epoch, holder, lock_kind) VALUES ($1, $3, $2, $4)
    ON CONFLICT DO NOTHING;
$$;
