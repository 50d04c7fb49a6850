-- A call whose outcome is unknown may have had its effect: the attempts that follow carry its key, until the gateway
-- says under it that nothing was done. held_key is the number of the attempt whose key is sent until its outcome is
-- known; key_number is the number in the key that was sent, where it is not the attempt's own.
ALTER TABLE submission_intents ADD COLUMN held_key INTEGER;
ALTER TABLE submission_attempts ADD COLUMN key_number INTEGER;
