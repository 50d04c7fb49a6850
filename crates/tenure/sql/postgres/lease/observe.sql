-- The lease as it is, without locking it. One row.
-- $1 text: lease_name, $2 text: nonce of the candidate that asks.
SELECT lease.holder_id,
       coalesce(lease.lease_epoch, 0) AS lease_epoch,
       coalesce((extract(epoch FROM lease.renewed_at) * 1000000)::bigint, 0) AS renewal,
       coalesce((extract(epoch FROM lease.expires_at - lease.renewed_at) * 1000)::float8, 0) AS lasts_ms,
       coalesce((extract(epoch FROM lease.expires_at - clock.now) * 1000)::float8, 0) AS left_ms,
       coalesce((extract(epoch FROM clock.now - lease.renewed_at) * 1000)::float8, 0) AS age_ms,
       coalesce(lease.nonce = $2, false) AS ours,
       (extract(epoch FROM clock.now) * 1000)::float8 AS now_ms,
       public.tenure_server_identity() AS server,
       pg_is_in_recovery() AS standby
FROM (SELECT clock_timestamp() AS now) AS clock
LEFT JOIN {table} AS lease ON lease.lease_name = $1
