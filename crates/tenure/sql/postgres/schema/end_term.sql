-- Writes the end of a term into the history, for the node that led it. Once ended, a term stays as it is.
CREATE OR REPLACE FUNCTION tenure_end_term(scope text, holder text, epoch bigint, reason text)
RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
    UPDATE tenure_terms AS t SET ended_at = clock_timestamp(), reason = $4
    WHERE t.scope = $1 AND t.epoch = $3 AND t.holder = $2 AND t.ended_at IS NULL
$$;
