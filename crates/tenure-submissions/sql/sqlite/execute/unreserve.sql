-- Gives back an intent that this term has taken and for which nobody was called, in a fenced transaction.
UPDATE submission_intents
SET reserved_attempt = NULL,
    reserved_at = NULL,
    reserved_epoch = NULL,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number AND status = 'pending' AND reserved_epoch = :epoch
