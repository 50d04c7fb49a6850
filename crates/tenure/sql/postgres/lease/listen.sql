-- Hears of leases that were released; the payload is the lease_name.
LISTEN tenure_lease_change
