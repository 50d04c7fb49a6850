-- Takes the attempts of deleted intents along: an id that is submitted again begins with attempt 1 again.
CREATE TRIGGER submission_forget_attempts AFTER DELETE ON submission_intents
BEGIN
    DELETE FROM submission_attempts WHERE intent_id = OLD.intent_id;
END;
