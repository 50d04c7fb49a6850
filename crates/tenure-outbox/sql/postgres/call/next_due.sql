-- How many milliseconds from now something becomes claimable that is not so yet: the next row that falls due, or
-- the next lease that ends. NULL: nothing does.
SELECT (1000 * extract(epoch FROM least(
    (
        SELECT p.next_attempt_at FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at IS NULL AND p.next_attempt_at > now()
        ORDER BY p.next_attempt_at LIMIT 1
    ), (
        SELECT p.lease_expires_at FROM public.payment_outbox_pending AS p
        WHERE p.lease_expires_at > now()
        ORDER BY p.lease_expires_at LIMIT 1
    )
) - now()))::bigint AS wait_ms
