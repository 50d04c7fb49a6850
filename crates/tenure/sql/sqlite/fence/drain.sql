-- Asks a term to hand over.
-- ?1 text: scope, ?2 integer: epoch.
INSERT INTO tenure_drains (scope, epoch) VALUES (?1, ?2)
ON CONFLICT (scope) DO UPDATE
SET epoch = max(epoch, excluded.epoch), asked_at = excluded.asked_at
