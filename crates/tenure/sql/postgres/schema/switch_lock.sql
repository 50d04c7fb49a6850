-- Lets the next winner of a scope bring another kind of lock. For an operator who has stopped every node.
CREATE OR REPLACE FUNCTION tenure_switch_lock(scope text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    UPDATE tenure_fences AS f SET lock_kind = '', lock_place = '' WHERE f.scope = scope;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nobody has ever led the scope %', quote_literal(scope) USING ERRCODE = 'TN003';
    END IF;
END
$$;
