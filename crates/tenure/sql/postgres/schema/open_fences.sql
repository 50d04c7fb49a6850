-- The terms that may write now: for fenced writes of one statement, which lock their row here FOR SHARE.
-- Both steps of the fence at once: the lock's own row is read without locking it, and only where it speaks
-- for the term is the fence row there to be locked. A lock that is not named here has no first step.
CREATE VIEW tenure_open_fences AS
SELECT f.scope, f.holder, f.epoch
FROM tenure_fences AS f
WHERE CASE
    WHEN f.lock_kind = 'postgres-lease' AND f.lock_place = 'tenure_leases' THEN EXISTS (
        SELECT FROM tenure_leases AS l
        WHERE l.lease_name = f.scope
          AND l.holder_id = f.holder
          AND l.lease_epoch = f.epoch
          AND l.expires_at > clock_timestamp())
    WHEN f.lock_kind = 'postgres-advisory' THEN EXISTS (
        SELECT FROM msp_leader_state AS s
        WHERE s.id = 1
          AND s.scope_key = f.lock_place::bigint
          AND s.holder_identity = f.holder
          AND s.epoch = f.epoch
          AND s.last_heartbeat + s.late_threshold_ms * interval '1 ms' > clock_timestamp())
    ELSE true
END;
COMMENT ON VIEW tenure_open_fences IS
    'Locking a row needs the right to update it; the trigger refuses whoever would really do so.';
