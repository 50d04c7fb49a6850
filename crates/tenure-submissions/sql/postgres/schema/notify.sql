-- Wakes the leader when intents were stored, once per statement.
CREATE FUNCTION submission_intents_notify() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('submission_intents', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER submission_intents_notify AFTER INSERT ON submission_intents
FOR EACH STATEMENT EXECUTE FUNCTION submission_intents_notify();
