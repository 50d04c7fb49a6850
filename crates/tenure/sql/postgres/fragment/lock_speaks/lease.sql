(SELECT true FROM {table} AS lease
            WHERE lease.lease_name = $1
              AND lease.holder_id = $2
              AND lease.lease_epoch = $3
              AND lease.expires_at > clock_timestamp())
