-- Moves the fence ahead, so that terms of a lost history can never write again. One row: where it stands.
-- ?1 text: scope, ?2 integer: how many epochs.
UPDATE tenure_fences SET epoch = epoch + ?2, holder = '' WHERE scope = ?1 RETURNING epoch
