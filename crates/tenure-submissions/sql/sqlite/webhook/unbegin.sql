-- Gives back a webhook that this term has taken and not sent, in a fenced transaction.
UPDATE submission_intents
SET webhook_attempted_at = NULL,
    updated_at = :now,
    last_modified_at = max(:now, last_modified_at + 1),
    version = version + 1,
    modified_number = :number
WHERE row_number = :row_number AND webhook_status = 'pending'
