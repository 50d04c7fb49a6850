-- Proves the term, and extends the lease, if it is still this term's and has not expired. One row if so, none
-- otherwise. The row is locked first and the clock read after that: behind any kind of blocker, a renewal that
-- waited past the expiry is refused. By a clock that was set back the expiry would move back: then it stays, and
-- `extends` is false.
-- $1 text: lease_name, $2 text: holder_id, $3 bigint: lease_epoch, $4 float8: lease in milliseconds.
WITH held AS MATERIALIZED (
    SELECT lease_name, holder_id, lease_epoch, renewed_at, expires_at
    FROM {table}
    WHERE lease_name = $1
    FOR UPDATE
), seen AS MATERIALIZED (
    SELECT lease_name, holder_id, lease_epoch, renewed_at, expires_at, clock_timestamp() AS now
    FROM held
)
UPDATE {table} AS lease
SET renewed_at = CASE
        WHEN seen.now + $4 * interval '1 ms' >= seen.expires_at THEN seen.now
        ELSE seen.renewed_at
    END,
    expires_at = greatest(seen.expires_at, seen.now + $4 * interval '1 ms')
FROM seen
WHERE lease.lease_name = seen.lease_name
  AND seen.holder_id = $2
  AND seen.lease_epoch = $3
  AND seen.expires_at > seen.now
RETURNING seen.now + $4 * interval '1 ms' >= seen.expires_at AS extends,
          (extract(epoch FROM seen.now) * 1000)::float8 AS now_ms,
          public.tenure_server_identity() AS server
