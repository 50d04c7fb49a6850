-- The optional trigger: refuses writes in a transaction that has not passed the fence of the scope that
-- is given as the trigger's argument.
--   CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON orders
--   FOR EACH STATEMENT EXECUTE FUNCTION tenure_require_fence('billing');
CREATE OR REPLACE FUNCTION tenure_require_fence() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
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
