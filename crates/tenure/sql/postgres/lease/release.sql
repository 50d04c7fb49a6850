-- Ends the lease now, if it is still this term's, and wakes whoever waits for it. The row and its epoch stay.
-- $1 text: lease_name, $2 text: holder_id, $3 bigint: lease_epoch.
WITH released AS (
    UPDATE {table}
    SET expires_at = least(expires_at, clock_timestamp())
    WHERE lease_name = $1 AND holder_id = $2 AND lease_epoch = $3
    RETURNING lease_name
)
SELECT pg_notify('tenure_lease_change', lease_name) FROM released
