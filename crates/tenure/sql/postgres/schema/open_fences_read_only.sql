-- To lock a row of the view a role needs UPDATE on it. This is what keeps it from using that right.
CREATE OR REPLACE FUNCTION tenure_refuse_update() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'tenure_open_fences is for reading and locking only' USING ERRCODE = 'TN003';
END
$$;
CREATE TRIGGER read_only INSTEAD OF INSERT OR UPDATE OR DELETE ON tenure_open_fences
FOR EACH ROW EXECUTE FUNCTION tenure_refuse_update();
