(SELECT true FROM public.msp_leader_state AS state
            WHERE state.id = 1
              AND state.scope_key = {scope_key}
              AND state.holder_identity = $2
              AND state.epoch = $3
              AND state.last_heartbeat + state.late_threshold_ms * interval '1 ms' > clock_timestamp())
