-- A page of what was written since a position, in order; and where things stand now, also when nothing was.
-- A row is new when the snapshot of the position could not see the transaction that wrote it last.
-- $1 text: that snapshot, $2 timestamptz and $3 text: the last row of the page before, $4 bigint: how many.
WITH stand AS MATERIALIZED (
    SELECT pg_current_snapshot()::text AS snapshot, public.tenure_server_identity() AS server,
           clock_timestamp() AS now
), page AS MATERIALIZED (
    SELECT row_number, version, next_attempt_at, last_modified_at, intent_id
    FROM public.submission_intents
    WHERE (modified_xid >= pg_snapshot_xmax($1::text::pg_snapshot)
           OR modified_xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot))))
      AND (last_modified_at > $2 OR (last_modified_at = $2 AND intent_id > $3))
    ORDER BY last_modified_at, intent_id
    LIMIT $4
)
SELECT stand.snapshot, stand.server, stand.now, page.row_number, page.version, page.next_attempt_at,
       page.last_modified_at, page.intent_id
FROM stand LEFT JOIN page ON true
ORDER BY page.last_modified_at, page.intent_id
