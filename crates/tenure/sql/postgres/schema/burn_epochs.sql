-- Burns epochs: moves the fence of a scope ahead, so that terms of a lost history can never write again.
-- For an operator after a restore or an unclean failover. Returns where the fence stands now.
CREATE OR REPLACE FUNCTION tenure_burn_epochs(scope text, count bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    stands_at bigint;
BEGIN
    IF count IS NULL OR count < 1 THEN
        RAISE EXCEPTION 'burn at least one epoch, not %', count USING ERRCODE = 'TN003';
    END IF;
    UPDATE tenure_fences AS f
    SET epoch = f.epoch + count, holder = '', raised_at = clock_timestamp()
    WHERE f.scope = scope
    RETURNING f.epoch INTO stands_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nobody has ever led the scope %', quote_literal(scope) USING ERRCODE = 'TN003';
    END IF;
    UPDATE tenure_terms AS t SET ended_at = clock_timestamp(), reason = 'epochs_burnt'
    WHERE t.scope = scope AND t.ended_at IS NULL;
    RETURN stands_at;
END
$$;
