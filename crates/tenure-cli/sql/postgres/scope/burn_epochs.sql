-- Moves the fence of a scope ahead. One row: where it stands. For the schema's owner.
-- $1 text: scope, $2 bigint: how many epochs.
SELECT public.tenure_burn_epochs($1, $2)
