-- Creates the lease for its first holder. One row if that was us, none if another was first.
-- A server that was promoted or restored may lack a lease that was created before, and where terms are known
-- somebody has deleted it: then a whole one is sat out.
-- $1 text: lease_name, $2 text: holder_id, $3 float8: lease in milliseconds, $4 bigint: highest epoch that
-- the candidate has seen, $5 text: its nonce.
INSERT INTO {table} (
    lease_name, holder_id, lease_epoch, acquired_at, renewed_at, expires_at, nonce, server, unknown_until)
SELECT $1, $2, greatest(public.tenure_highest_epoch($1), $4) + 1, clock.now, clock.now,
       clock.now + $3 * interval '1 ms', $5, clock.server,
       CASE
           WHEN clock.server LIKE '%:00000001' AND greatest(public.tenure_highest_epoch($1), $4) = 0 THEN '-infinity'
           ELSE clock.now + $3 * interval '1 ms'
       END
FROM (SELECT public.tenure_server_identity() AS server, clock_timestamp() AS now) AS clock
ON CONFLICT DO NOTHING
RETURNING lease_epoch AS won_epoch,
          (extract(epoch FROM greatest(unknown_until, acquired_at) - acquired_at) * 1000)::float8 AS settle_ms,
          (extract(epoch FROM acquired_at) * 1000)::float8 AS now_ms,
          server
