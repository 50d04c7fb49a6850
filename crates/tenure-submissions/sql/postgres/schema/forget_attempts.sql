-- Takes the attempts of deleted intents along: an id that is submitted again begins with attempt 1 again.
CREATE FUNCTION submission_forget_attempts() RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM public.submission_attempts AS a USING gone WHERE a.intent_id = gone.intent_id;
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION submission_forget_attempts() FROM PUBLIC;
CREATE TRIGGER submission_forget_attempts AFTER DELETE ON submission_intents
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION submission_forget_attempts();
