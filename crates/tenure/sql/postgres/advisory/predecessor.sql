-- The processes that acted in the last term, for whoever has just got the lock. No row when that term was
-- given back, or when it did not name them.
-- $1 bigint: scope_key.
SELECT epoch, processes
FROM public.msp_leader_state
WHERE id = 1 AND scope_key = $1 AND processes_epoch = epoch AND released_epoch <> epoch AND processes <> ''
