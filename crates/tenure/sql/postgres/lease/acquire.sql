-- Takes the lease over if it has expired. One row when the lease exists, none when it does not.
-- The row is locked first and the clock read after that: a wait must not make an old "now" decide.
-- $1 text: lease_name, $2 text: holder_id, $3 float8: lease in milliseconds, $4 bigint: highest epoch that
-- the candidate has seen, $5 text: its nonce.
WITH held AS MATERIALIZED (
    SELECT lease_name, holder_id, lease_epoch, renewed_at, expires_at, nonce
    FROM {table}
    WHERE lease_name = $1
    FOR UPDATE
), seen AS MATERIALIZED (
    SELECT lease_name, holder_id, lease_epoch, renewed_at, expires_at, nonce, clock_timestamp() AS now
    FROM held
), won AS (
    UPDATE {table} AS lease
    SET holder_id = $2,
        lease_epoch = greatest(lease.lease_epoch, public.tenure_highest_epoch($1), $4) + 1,
        acquired_at = seen.now,
        renewed_at = seen.now,
        expires_at = seen.now + $3 * interval '1 ms',
        nonce = $5
    FROM seen
    WHERE lease.lease_name = seen.lease_name AND seen.expires_at <= seen.now
    RETURNING lease.lease_epoch
)
SELECT won.lease_epoch AS won_epoch,
       seen.holder_id,
       seen.lease_epoch,
       (extract(epoch FROM seen.expires_at - seen.now) * 1000)::float8 AS left_ms,
       (extract(epoch FROM seen.now - seen.renewed_at) * 1000)::float8 AS age_ms,
       seen.nonce = $5 AS ours,
       (extract(epoch FROM seen.now) * 1000)::float8 AS now_ms,
       public.tenure_server_identity() AS server
FROM seen
LEFT JOIN won ON true
