-- The optional trigger: refuses writes in a transaction that has not passed the fence of the scope that
-- is given as the trigger's argument. AFTER, because a fence that is joined to the statement runs inside it.
--   CREATE TRIGGER fenced AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON orders
--   FOR EACH STATEMENT EXECUTE FUNCTION tenure_require_fence('billing');
CREATE OR REPLACE FUNCTION tenure_require_fence() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    -- What it returns would make a trigger before each row drop the row in silence.
    IF TG_LEVEL <> 'STATEMENT' THEN
        RAISE EXCEPTION 'the trigger % on % must be FOR EACH STATEMENT', TG_NAME, TG_TABLE_NAME
            USING ERRCODE = 'TN003';
    END IF;
    IF coalesce(pg_current_xact_id_if_assigned()::text || ' ' || TG_ARGV[0] = ANY (
        string_to_array(current_setting('tenure.fenced', true), E'\n')), false)
    THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% of % without the fence of scope %', TG_OP, TG_TABLE_NAME, quote_literal(TG_ARGV[0])
        USING ERRCODE = 'TN001',
              HINT = 'Call tenure_fence(scope, holder, epoch) earlier in the same transaction.';
END
$$;
