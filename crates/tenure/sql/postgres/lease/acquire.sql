-- Takes the lease over if it has expired. One row when the lease exists, none when it does not.
-- The row is locked first and the clock read after that: a wait must not make an old "now" decide.
-- A lease that another server granted, or another history of this one, may have been renewed or taken there
-- since, and nobody here knows: whoever takes it sits a whole one out, and nobody can shorten that.
-- $1 text: lease_name, $2 text: holder_id, $3 float8: lease in milliseconds, $4 bigint: highest epoch that
-- the candidate has seen, $5 text: its nonce, $6 bigint: the term whose renewal has run out by the candidate's
-- own clock, 0 for none, $7 bigint: when that renewal was, in microseconds since 1970.
WITH held AS MATERIALIZED (
    SELECT lease_name, holder_id, lease_epoch, renewed_at, expires_at, nonce, server, unknown_until
    FROM {table}
    WHERE lease_name = $1
    FOR UPDATE
), seen AS MATERIALIZED (
    SELECT lease_name, holder_id, lease_epoch, renewed_at, expires_at, nonce, server, unknown_until,
           (extract(epoch FROM renewed_at) * 1000000)::bigint AS renewal,
           greatest($3 * interval '1 ms', expires_at - renewed_at) AS longest,
           public.tenure_server_identity() AS server_now,
           clock_timestamp() AS now
    FROM held
), won AS (
    UPDATE {table} AS lease
    SET holder_id = $2,
        lease_epoch = greatest(lease.lease_epoch, public.tenure_highest_epoch($1), $4) + 1,
        acquired_at = seen.now,
        renewed_at = seen.now,
        expires_at = seen.now + $3 * interval '1 ms',
        nonce = $5,
        server = seen.server_now,
        unknown_until = CASE
            WHEN seen.server NOT IN ('', seen.server_now) THEN seen.now + seen.longest
            ELSE least(seen.unknown_until, seen.now + seen.longest)
        END
    FROM seen
    WHERE lease.lease_name = seen.lease_name
      AND (seen.expires_at <= seen.now OR (seen.lease_epoch, seen.renewal) = ($6, $7))
    RETURNING lease.lease_epoch, lease.unknown_until
)
SELECT won.lease_epoch AS won_epoch,
       coalesce((extract(epoch FROM greatest(won.unknown_until, seen.now) - seen.now) * 1000)::float8, 0)
           AS settle_ms,
       seen.holder_id,
       seen.lease_epoch,
       seen.renewal,
       (extract(epoch FROM seen.expires_at - seen.renewed_at) * 1000)::float8 AS lasts_ms,
       (extract(epoch FROM seen.expires_at - seen.now) * 1000)::float8 AS left_ms,
       (extract(epoch FROM seen.now - seen.renewed_at) * 1000)::float8 AS age_ms,
       seen.nonce = $5 AS ours,
       (extract(epoch FROM seen.now) * 1000)::float8 AS now_ms,
       seen.server_now AS server
FROM seen
LEFT JOIN won ON true
