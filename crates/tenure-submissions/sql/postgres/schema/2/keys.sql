-- A call whose outcome is unknown may have had its effect: the attempts that follow carry its key, until the gateway
-- says under it that nothing was done.
ALTER TABLE submission_intents ADD COLUMN held_key integer;
ALTER TABLE submission_attempts ADD COLUMN key_number integer;
COMMENT ON COLUMN submission_intents.held_key IS 'The number of the attempt whose key is sent until its outcome is known.';
COMMENT ON COLUMN submission_attempts.key_number IS 'The number in the key that was sent, where it is not the attempt''s own.';
