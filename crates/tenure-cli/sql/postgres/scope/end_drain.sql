-- Lets whoever was drained contend again; whether anybody had been asked.
-- $1 text: scope.
SELECT public.tenure_end_drain($1)
