-- Raises the fence of a scope that cannot exist, in a transaction that is rolled back: what a session pays
-- for its first call of the function is paid before it matters.
SELECT raised FROM public.tenure_raise_fence('', 'nobody', 1, 'rehearsal', '', 1)
