-- The term of a scope that has not ended, as far as the history knows.
-- ?1 text: scope.
SELECT epoch, holder FROM tenure_terms WHERE scope = ?1 AND ended_at IS NULL ORDER BY epoch DESC LIMIT 1
