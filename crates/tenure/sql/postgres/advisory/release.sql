-- Notes that this term was given back: its holder has stopped acting, and nobody needs to sit it out.
-- $1 bigint: scope_key, $2 text: holder_identity, $3 bigint: epoch.
UPDATE public.msp_leader_state
SET released_epoch = epoch
WHERE id = 1 AND scope_key = $1 AND holder_identity = $2 AND epoch = $3
