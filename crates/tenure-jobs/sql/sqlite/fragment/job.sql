j.row_number, j.job_id, j.namespace, j.op, j.payload, j.priority, j.pinned_agent, j.state, j.job_epoch,
       j.leader_epoch, j.lease_id, j.leased_by, j.leased_at, j.lease_expires_at, j.created_at, j.completed_at,
       r.result, r.error, r.error_value, j.lost_leases, j.failures, j.not_before, j.deadline_at
