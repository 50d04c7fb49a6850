-- Lets the next winner of a scope bring another lock. For the schema's owner.
-- $1 text: scope.
SELECT public.tenure_switch_lock($1)
