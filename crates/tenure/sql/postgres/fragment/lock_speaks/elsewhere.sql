fence.lock_kind NOT IN ('postgres-lease', 'postgres-advisory')
