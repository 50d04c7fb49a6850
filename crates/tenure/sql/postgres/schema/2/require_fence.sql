-- The optional trigger: refuses writes in a transaction that has not passed the fence of the scope that
-- is given as the trigger's argument. AFTER, because a fence that is joined to the statement runs inside it.
--   CREATE TRIGGER fenced AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON orders
--   FOR EACH STATEMENT EXECUTE FUNCTION tenure_require_fence('billing');
-- On a table with partitions a trigger for each statement does not see what is written into a partition
-- directly. One for each row does, and every partition gets it from its parent; TRUNCATE has none for each row,
-- so every partition needs that one for itself:
--   CREATE TRIGGER fenced AFTER INSERT OR UPDATE OR DELETE ON orders
--   FOR EACH ROW EXECUTE FUNCTION tenure_require_fence('billing');
CREATE OR REPLACE FUNCTION tenure_require_fence() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    -- What it returns would make a trigger before each row drop the row in silence.
    IF TG_WHEN <> 'AFTER' AND TG_LEVEL <> 'STATEMENT' THEN
        RAISE EXCEPTION 'the trigger % on % must be AFTER, or FOR EACH STATEMENT', TG_NAME, TG_TABLE_NAME
            USING ERRCODE = 'TN003';
    END IF;
    IF TG_LEVEL = 'STATEMENT' AND TG_OP <> 'TRUNCATE'
        AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = TG_RELID)
    THEN
        RAISE EXCEPTION 'the trigger % on % does not see what is written into its partitions',
            TG_NAME, TG_TABLE_NAME
            USING ERRCODE = 'TN003',
                  HINT = 'Create it FOR EACH ROW (AFTER INSERT OR UPDATE OR DELETE): partitions get it too. '
                         'A table with children by INHERITS needs one on each child.';
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
