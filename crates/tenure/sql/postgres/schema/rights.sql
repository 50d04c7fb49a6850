-- Nobody may call what changes a scope until the role is granted it: see grant.sql.
REVOKE ALL ON FUNCTION
    tenure_fence(text, text, bigint),
    tenure_fence_slot(),
    tenure_fence_of_other_lock(text, text, bigint),
    tenure_refuse(text, text, bigint, bigint, text),
    tenure_raise_fence(text, text, bigint, text, text, bigint),
    tenure_begin_term(text, text, bigint, text),
    tenure_end_term(text, text, bigint, text),
    tenure_highest_epoch(text),
    tenure_server_identity(),
    tenure_create_advisory_scope(bigint, text),
    tenure_create_lease_table(text),
    tenure_drain(text),
    tenure_end_drain(text),
    tenure_burn_epochs(text, bigint),
    tenure_switch_lock(text)
FROM PUBLIC;
