-- Raises the fence's refusal: what was asked, and why not. The detail is where the fence stands.
CREATE OR REPLACE FUNCTION tenure_refuse(scope text, holder text, epoch bigint, fence_epoch bigint, why text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'term % of % in % is over: %', epoch, holder, quote_nullable(scope), why
        USING ERRCODE = 'TN001', DETAIL = coalesce(fence_epoch, 0)::text,
              HINT = 'Somebody else may lead now. Win a new term; do not retry this write.';
END
$$;
